"""One connection to a receiver: HTTP/1.1, one POST at a time, and the first `Answer.body_max` bytes of the answer.

The receiver is treated as hostile. Redirects are not followed, nothing is decompressed, and every part of an answer has
a size limit. Time limits are set by the caller, which cancels the POST.

Data that the receiver sends before it has received a request is never taken for the answer to it. The connection looks
for such data before it writes a request (`Transport.is_quiet`), and again when the first bytes after it arrive
(`Transport.outstanding`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import lru_cache

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from holdfast.net.answer import Answer, Disconnected, RequestError
from holdfast.net.interim import STATUS_LINE_BYTES, skip_interim
from holdfast.net.transport import Transport

HEAD_MAX = 64 * 1024
INTERIM_MAX = 16 * 1024
RAW_MAX = 512 * 1024  # of a whole answer: 16 KiB of body may come in chunks of one byte, each with its own header
UNFRAMED_S = 0.25  # how long the body of an answer without a length is read; its status decides
SOON_S = 0.002  # added to two round trips, because the event loop may read a little late
FLIGHT_BYTES = 8 * 1024  # sent at once, without waiting for acknowledgements, so it arrives as a whole
OUTSTANDING_EVERY_S = 0.01  # acknowledgements cause no event, so they are polled
TITLES_MAX = 256
TICKETS_MAX = 10  # iterations of the event loop for TLS session tickets that arrive before the first request

_NOT_HTTP = "the answer is not HTTP"
_BROKE_OFF = "the answer broke off"
_CLOSED = "the receiver closed the connection without an answer"


@lru_cache(TITLES_MAX)
def _title(name: bytes) -> str:
    """A header name in title case. Cached, because most answers have the same few names."""
    return name.strip().decode("latin-1").title()


class Connection:
    """Kept after a request if both sides allow it (`is_kept`), and used again if it is still `is_free`."""

    def __init__(self, transport: Transport) -> None:
        self._parser = HttpResponseParser(self)
        # Accept what real receivers send: headers over two lines, line ends without CR, spaces after a chunk size.
        self._parser.set_dangerous_leniencies(
            lenient_headers=True,
            lenient_optional_cr_before_lf=True,
            lenient_spaces_after_chunk_size=True,
            lenient_data_after_close=True,
        )
        self._transport, self._loop = transport, asyncio.get_running_loop()
        self._answer: Answer | None = None
        self._done: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._head: dict[str, str] = {}
        self._start = b""  # the first bytes of an answer, while they may belong to an interim one
        self._sent = self._received = self._head_bytes = 0
        self._sent_at_s = 0.0
        self._whole = self._parsing = self._framed = self._unframed = self._ended = False
        self._keep = self._used = self._spoke_first = False
        self.idle_since_s = 0.0
        self.on_stray: Callable[[], None] = lambda: None
        """Called when the receiver sends data that belongs to no request."""
        transport.give_to(self)

    @property
    def is_kept(self) -> bool:
        return self._keep and self._transport.is_open

    @property
    def is_free(self) -> bool:
        """Whether the next request may use this connection. Polls the socket, so call it right before the request."""
        return self._keep and self._transport.is_open and self._transport.is_quiet

    async def post(self, request: bytes, answer: Answer) -> None:
        """Send a request and fill in the answer as it arrives."""
        self._keep = False
        reused, self._used = self._used, True
        try:
            if not reused:
                await self._check_silence()
            if not self._transport.is_open:
                raise Disconnected(_CLOSED)
            self._answer, self._head = answer, {}
            self._start, self._received, self._head_bytes = b"", 0, 0
            self._parsing = self._framed = self._unframed = self._ended = False
            self._done = self._loop.create_future()
            sent = self._transport.write(request)
            self._whole = sent <= FLIGHT_BYTES and not self._transport.unsent
            self._sent, self._sent_at_s = (sent, self._loop.time()) if reused else (0, 0.0)
            await self._done
        except BaseException as error:
            self._keep = False  # the answer may be complete, but the caller that would keep the connection is gone
            if isinstance(error, Disconnected):
                error.reused = reused
            raise
        finally:
            self._answer = self._done = None
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            if not self._keep:
                self._transport.abort()

    def close(self) -> None:
        self._transport.abort()

    async def _check_silence(self) -> None:
        """Refuse a receiver that sends data before the first request. TLS 1.3 session tickets are allowed."""
        for _ in range(TICKETS_MAX):
            if not self._transport.is_open or self._transport.is_quiet:
                break
            await asyncio.sleep(0)  # let the event loop read what has arrived
        if self._spoke_first:
            raise RequestError("the receiver sent data before it was sent a request")

    # Called by the transport

    def arrived(self, ended: bool) -> None:
        if self._answer is None:
            return
        if self._sent:
            sent, self._sent = self._sent, 0
            # Data sent before the request arrives within a round trip. After that the kernel need not be asked.
            soon = self._loop.time() - self._sent_at_s < SOON_S + 2 * self._transport.round_trip_s
            if soon and not ended and self._transport.outstanding >= sent:
                self._fail(Disconnected("the receiver sent data on an idle connection"))
                self.on_stray()
        if not self._whole:
            self._whole = not self._transport.outstanding

    def received(self, data: bytes) -> None:
        answer = self._answer
        if answer is None:
            self._keep, self._spoke_first = False, True
            self.close()
            self.on_stray()
            return
        if self._ended:
            self._keep = False  # more data than the answer: requests and answers no longer match
            self.on_stray()
            return
        self._received += len(data)
        if not self._parsing:
            data = self._skip_interim(data)
        if self._parsing:
            try:
                self._parser.feed_data(data)
            except HttpParserUpgrade:
                self._keep = False
                self._end()
            except HttpParserError:
                self._fail(RequestError(_NOT_HTTP))
        if answer.status is not None:
            answer.restart_silence()
        if self._received > (HEAD_MAX if answer.status is None else RAW_MAX):
            self._fail(RequestError(_NOT_HTTP))
        if self._unframed and self._timer is None:
            self._timer = self._loop.call_later(UNFRAMED_S, self._end)

    def lost(self, error: Exception | None) -> None:
        answer = self._answer
        if answer is None or self._done is None or self._done.done():
            return
        if answer.is_success and not self._whole:
            answer.error = f"answered {answer.status}, but closed the connection before it had the whole request"
            self._finish()
        elif self._ended:
            self._finish()
        elif self._unframed:
            self._end()  # an answer without a length ends with the connection
        elif self._received:
            self._fail(RequestError(_BROKE_OFF))
        elif isinstance(error, OSError):
            self._fail(Disconnected(f"the connection broke: {error.strerror or type(error).__name__}"))
        else:
            self._fail(Disconnected(_CLOSED))

    # Called by the parser

    def on_message_begin(self) -> None:
        self._keep = False  # set again at the end of the first answer; a second one belongs to no request
        if self._ended:
            self.on_stray()

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._answer is None or self._answer.status is not None:  # a second answer, or a trailer
            return
        self._head_bytes += len(name) + len(value)
        if self._head_bytes > HEAD_MAX or b"\0" in value:
            raise ValueError("not a header")  # the parser turns it into HttpParserError
        title, text = _title(name), value.decode("utf-8", "replace")
        if title == "Content-Length":
            self._framed = True
        elif title == "Transfer-Encoding":
            self._framed = text.lower().rpartition(",")[2].strip() == "chunked"
        self._head.setdefault(title, text)

    def on_headers_complete(self) -> None:
        answer, status = self._answer, self._parser.get_status_code()
        if 100 <= status <= 199 and status != 101:
            raise ValueError("unexpected interim answer")  # all of them were skipped before
        if answer is not None and answer.status is None:
            answer.status, answer.headers = status, self._head
            if not self._framed:
                self._unframed = True
                answer.status_decides = self._whole or not answer.is_success

    def on_body(self, data: bytes) -> None:
        answer = self._answer
        if answer is None or self._ended:
            return
        answer.body += data[: answer.body_max - len(answer.body)]
        if len(answer.body) >= answer.body_max:
            self._end()

    def on_message_complete(self) -> None:
        if not self._ended:
            self._keep = self._parser.should_keep_alive()
            self._end()

    # The end of an answer

    def _skip_interim(self, data: bytes) -> bytes:
        if not self._start and len(data) >= STATUS_LINE_BYTES and data.startswith(b"HTTP/1.1 2"):
            self._parsing = True  # the usual case
            return data
        data, self._parsing = skip_interim(self._start + data)
        self._start = b"" if self._parsing else data
        if len(self._start) > INTERIM_MAX:
            self._fail(RequestError(_NOT_HTTP))
        return data

    def _end(self) -> None:
        """The answer is complete, or as much of it as is read.

        It may arrive before the receiver has the whole request, if the receiver rejects it or does not read the body.
        A success counts only once the receiver has the rest.
        """
        if self._ended or self._answer is None:
            return
        self._ended, self._unframed = True, False
        if self._whole:
            self._finish()
        elif self._answer.is_success:
            self._finish_when_whole()
        else:
            self._keep = self._keep and not self._transport.outstanding
            self._finish()

    def _finish_when_whole(self) -> None:
        self._whole = not self._transport.outstanding
        if self._whole:
            self._finish()
        elif self._answer is not None:
            self._timer = self._loop.call_later(OUTSTANDING_EVERY_S, self._finish_when_whole)

    def _fail(self, fault: RequestError) -> None:
        """End with an error. If a status has arrived, it counts, and the error is noted beside it."""
        self._keep = False
        answer, done = self._answer, self._done
        if answer is None or done is None or done.done() or self._ended:
            return
        self._ended = True
        if answer.status is None:
            done.set_exception(fault)
        else:
            answer.error = f"answered {answer.status}, but {_BROKE_OFF}"
            done.set_result(None)

    def _finish(self) -> None:
        if self._done is not None and not self._done.done():
            self._done.set_result(None)
