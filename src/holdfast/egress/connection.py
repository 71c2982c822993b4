"""One connection to a receiver: HTTP/1.1, one POST at a time, and as much of the answer as an operator wants to see.

The receiver is treated as hostile. Redirects are not followed, nothing is decompressed, little is read, and every part
of an answer has a bound. How long it may take is `Patience`'s to say: who runs out of it cancels the POST.
"""

from __future__ import annotations

import asyncio
from typing import cast

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from holdfast.egress.exchange import Exchange

READ_MAX = 16 * 1024
HEAD_MAX = 64 * 1024
RAW_MAX = 512 * 1024  # of an answer in all: sixteen KiB of body may come in chunks of a byte, and chunks have heads

_NOT_HTTP = "the answer is not HTTP"
_BROKE_OFF = "the answer broke off"


class Fault(Exception):
    """Why there is no answer, in our own words: other people's messages quote URLs, which may carry tokens."""


class HungUp(Fault):
    """The connection ended before a single byte of an answer."""


class Connection(asyncio.Protocol):
    """Kept between requests as long as both sides want: `is_free` says whether the next may use it."""

    def __init__(self) -> None:
        self._parser = HttpResponseParser(self)
        # As receivers write it: headers over two lines, line ends without CR, blanks after the size of a chunk.
        self._parser.set_dangerous_leniencies(
            lenient_headers=True,
            lenient_optional_cr_before_lf=True,
            lenient_spaces_after_chunk_size=True,
            lenient_data_after_close=True,
        )
        self._transport: asyncio.Transport | None = None
        self._wire: asyncio.Transport  # beneath TLS, which does not tell what is still to be sent
        self._exchange: Exchange | None = None
        self._answered: asyncio.Future[None] | None = None
        self._head: dict[str, str] = {}
        self._received = self._head_bytes = 0
        self._interim = self._keep = False
        self.idle_since_s = 0.0

    @property
    def is_free(self) -> bool:
        return self._keep and self._transport is not None and not self._transport.is_closing()

    async def post(self, request: bytes, exchange: Exchange) -> None:
        """Send these bytes; what comes back stands in the exchange as it comes."""
        transport = self._transport
        if transport is None:
            raise HungUp("the receiver hung up without an answer")
        self._exchange, self._head, self._keep = exchange, {}, False
        self._received = self._head_bytes = 0
        self._answered = asyncio.get_running_loop().create_future()
        transport.write(request)
        try:
            await self._answered
        except BaseException:
            self._keep = False  # an answer may be complete, but nobody is left to keep the connection
            raise
        finally:
            self._exchange = self._answered = None
            # What came before all was sent is an answer, but the rest of the request would be taken for the next one.
            self._keep = self._keep and not self._wire.get_write_buffer_size()
            if not self._keep:
                transport.abort()

    def close(self) -> None:
        """At once: nothing waits to be sent, and TLS would wait for the receiver to agree."""
        if self._transport is not None:
            self._transport.abort()

    def secured(self, transport: asyncio.Transport | None) -> None:
        """From here on it speaks TLS, over the transport it was made with; None if that ended meanwhile."""
        self._transport = transport

    # What the event loop tells

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = self._wire = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        exchange = self._exchange
        if exchange is None:  # nobody asked
            self._keep = False
            self.close()
            return
        self._received += len(data)
        try:
            self._parser.feed_data(data)
        except HttpParserUpgrade:
            self._keep = False
            self._end()
        except HttpParserError:
            self._fail(Fault(_NOT_HTTP))
        if self._received > (HEAD_MAX if exchange.status is None else RAW_MAX):
            self._fail(Fault(_NOT_HTTP))

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        exchange = self._exchange
        if exchange is None:
            return
        if exchange.status is not None and not _has_end(self._head):
            self._end()  # then this is how it ends
        elif self._received:
            self._fail(Fault(_BROKE_OFF))
        elif isinstance(error, OSError):
            self._fail(HungUp(f"the connection broke: {error.strerror or type(error).__name__}"))
        else:
            self._fail(HungUp("the receiver hung up without an answer"))

    # What the parser finds

    def on_message_begin(self) -> None:
        self._keep = False  # an answer more than there were requests; the first one sets it at its end

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._exchange is None or self._exchange.status is not None:  # nobody's, or of a trailer
            return
        self._head_bytes += len(name) + len(value)
        if self._head_bytes > HEAD_MAX or b"\0" in value:
            raise ValueError("not a header")  # which the parser turns into an error of its own
        self._head.setdefault(name.decode("latin-1").title(), value.decode("utf-8", "replace"))

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        self._interim = 100 <= status <= 199 and status != 101
        if self._interim:
            self._head = {}
        elif (exchange := self._exchange) is not None and exchange.status is None:
            exchange.status, exchange.answer = status, self._head
            exchange.heard()

    def on_body(self, data: bytes) -> None:
        exchange = self._exchange
        if exchange is None or self._is_over:
            return
        exchange.heard()
        exchange.body += data[: READ_MAX - len(exchange.body)]
        if len(exchange.body) >= READ_MAX:
            self._end()

    def on_message_complete(self) -> None:
        if not self._interim and not self._is_over:
            self._keep = self._parser.should_keep_alive()
            self._end()

    # How it ends

    @property
    def _is_over(self) -> bool:
        return self._answered is None or self._answered.done()

    def _end(self) -> None:
        if self._answered is not None and not self._answered.done():
            self._answered.set_result(None)

    def _fail(self, fault: Fault) -> None:
        """A status that came through is worth more than a body that did not."""
        self._keep = False
        exchange = self._exchange
        if exchange is None or self._answered is None or self._answered.done():
            return
        if exchange.status is None:
            self._answered.set_exception(fault)
        else:
            exchange.fault = f"answered {exchange.status}, but {_BROKE_OFF}"
            self._answered.set_result(None)


def _has_end(head: dict[str, str]) -> bool:
    """Whether an answer says itself where it ends. One that does not ends with its connection."""
    return "Content-Length" in head or "chunked" in head.get("Transfer-Encoding", "").lower()
