"""One connection to a receiver: HTTP/1.1, one POST at a time, and as much of the answer as an operator wants to see.

The receiver is treated as hostile. Redirects are not followed, nothing is decompressed, little is read, and every part
of an answer has a bound. Time limits are the caller's: it cancels the POST.

What the receiver sends before it has received a request is never taken for the answer to it. Such bytes are looked for
before a request is written (`Wire.is_quiet`) and once more when the first bytes after it arrive (`Wire.outstanding`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import lru_cache

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from holdfast.net.answer import Answer, Disconnected, Fault
from holdfast.net.interim import STATUS_LINE_BYTES, skip_interim
from holdfast.net.transport import Wire

READ_MAX = 16 * 1024
HEAD_MAX = 64 * 1024
INTERIM_MAX = 16 * 1024
RAW_MAX = 512 * 1024  # of an answer in all: sixteen KiB of body may come in chunks of a byte, and chunks have heads
UNFRAMED_S = 0.25  # how long the body of an answer without a length is read: its status has decided already
SOON_S = 0.002  # added to two round trips: the event loop may read a little late
FLIGHT_BYTES = 8 * 1024  # what goes out at once without waiting for the other side: it arrives as a whole
OUTSTANDING_EVERY_S = 0.01  # no event tells that the other side has acknowledged something
TITLES_MAX = 256
TICKETS_MAX = 10  # turns of the event loop for TLS session tickets that arrive before the first request

_NOT_HTTP = "the answer is not HTTP"
_BROKE_OFF = "the answer broke off"
_CLOSED = "the receiver closed the connection without an answer"


@lru_cache(TITLES_MAX)
def _title(name: bytes) -> str:
    """The name of a header in its usual spelling. Most answers have the same few."""
    return name.strip().decode("latin-1").title()


class Connection:
    """Kept between requests as long as both sides want (`is_kept`), used again if it `is_free`."""

    def __init__(self, wire: Wire) -> None:
        self._parser = HttpResponseParser(self)
        # As receivers write it: headers over two lines, line ends without CR, blanks after the size of a chunk.
        self._parser.set_dangerous_leniencies(
            lenient_headers=True,
            lenient_optional_cr_before_lf=True,
            lenient_spaces_after_chunk_size=True,
            lenient_data_after_close=True,
        )
        self._wire, self._loop = wire, asyncio.get_running_loop()
        self._answer: Answer | None = None
        self._done: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._head: dict[str, str] = {}
        self._start = b""  # of an answer, as long as it may be an interim one
        self._sent = self._received = self._head_bytes = 0
        self._sent_at_s = 0.0
        self._whole = self._parsing = self._framed = self._unframed = self._ended = False
        self._keep = self._used = self._spoke_first = False
        self.idle_since_s = 0.0
        self.on_stray: Callable[[], None] = lambda: None
        """Called when the receiver sends data that belongs to no request."""
        wire.give_to(self)

    @property
    def is_kept(self) -> bool:
        return self._keep and self._wire.is_open

    @property
    def is_free(self) -> bool:
        """To be asked right before the next request: it looks at the socket."""
        return self._keep and self._wire.is_open and self._wire.is_quiet

    async def post(self, request: bytes, answer: Answer) -> None:
        """Send these bytes; what comes back is noted in the answer as it comes."""
        self._keep = False
        reused, self._used = self._used, True
        try:
            if not reused:
                await self._check_silence()
            if not self._wire.is_open:
                raise Disconnected(_CLOSED)
            self._answer, self._head = answer, {}
            self._start, self._received, self._head_bytes = b"", 0, 0
            self._parsing = self._framed = self._unframed = self._ended = False
            self._done = self._loop.create_future()
            sent = self._wire.write(request)
            self._whole = sent <= FLIGHT_BYTES and not self._wire.unsent
            self._sent, self._sent_at_s = (sent, self._loop.time()) if reused else (0, 0.0)
            await self._done
        except BaseException as error:
            self._keep = False  # an answer may be complete, but nobody is left to keep the connection
            if isinstance(error, Disconnected):
                error.reused = reused
            raise
        finally:
            self._answer = self._done = None
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            if not self._keep:
                self._wire.abort()

    def close(self) -> None:
        self._wire.abort()

    async def _check_silence(self) -> None:
        """Refuse a receiver that sends data before the first request. Tickets of TLS 1.3 are no such data."""
        for _ in range(TICKETS_MAX):
            if not self._wire.is_open or self._wire.is_quiet:
                break
            await asyncio.sleep(0)  # the event loop reads what there is
        if self._spoke_first:
            raise Fault("the receiver sent data before it was sent a request")

    # Called by the wire

    def arrived(self, ended: bool) -> None:
        if self._answer is None:
            return
        if self._sent:
            sent, self._sent = self._sent, 0
            # What was on its way before the request is here within a round trip. Later, the kernel need not be asked.
            soon = self._loop.time() - self._sent_at_s < SOON_S + 2 * self._wire.round_trip_s
            if soon and not ended and self._wire.outstanding >= sent:
                self._fail(Disconnected("the receiver sent data on an idle connection"))
                self.on_stray()
        if not self._whole:
            self._whole = not self._wire.outstanding

    def received(self, data: bytes) -> None:
        answer = self._answer
        if answer is None:
            self._keep, self._spoke_first = False, True
            self.close()
            self.on_stray()
            return
        if self._ended:
            self._keep = False  # more than the answer: the connection is out of step
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
                self._fail(Fault(_NOT_HTTP))
        if answer.status is not None:
            answer.restart_silence()
        if self._received > (HEAD_MAX if answer.status is None else RAW_MAX):
            self._fail(Fault(_NOT_HTTP))
        if self._unframed and self._timer is None:
            self._timer = self._loop.call_later(UNFRAMED_S, self._end)

    def lost(self, error: Exception | None) -> None:
        answer = self._answer
        if answer is None or self._done is None or self._done.done():
            return
        if answer.is_success and not self._whole:
            answer.fault = f"answered {answer.status}, but closed the connection before it had the whole request"
            self._finish()
        elif self._ended:
            self._finish()
        elif self._unframed:
            self._end()  # this is how such an answer ends
        elif self._received:
            self._fail(Fault(_BROKE_OFF))
        elif isinstance(error, OSError):
            self._fail(Disconnected(f"the connection broke: {error.strerror or type(error).__name__}"))
        else:
            self._fail(Disconnected(_CLOSED))

    # Called by the parser

    def on_message_begin(self) -> None:
        self._keep = False  # the end of the first answer sets it; a second one belongs to no request
        if self._ended:
            self.on_stray()

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._answer is None or self._answer.status is not None:  # of a second answer, or of a trailer
            return
        self._head_bytes += len(name) + len(value)
        if self._head_bytes > HEAD_MAX or b"\0" in value:
            raise ValueError("not a header")  # which the parser turns into an error of its own
        title, text = _title(name), value.decode("utf-8", "replace")
        if title == "Content-Length":
            self._framed = True
        elif title == "Transfer-Encoding":
            self._framed = text.lower().rpartition(",")[2].strip() == "chunked"
        self._head.setdefault(title, text)

    def on_headers_complete(self) -> None:
        answer, status = self._answer, self._parser.get_status_code()
        if 100 <= status <= 199 and status != 101:
            raise ValueError("not an interim answer")  # those were skipped
        if answer is not None and answer.status is None:
            answer.status, answer.headers = status, self._head
            if not self._framed:
                self._unframed = True
                answer.status_decides = self._whole or not answer.is_success

    def on_body(self, data: bytes) -> None:
        answer = self._answer
        if answer is None or self._ended:
            return
        answer.body += data[: READ_MAX - len(answer.body)]
        if len(answer.body) >= READ_MAX:
            self._end()

    def on_message_complete(self) -> None:
        if not self._ended:
            self._keep = self._parser.should_keep_alive()
            self._end()

    # The course of an answer

    def _skip_interim(self, data: bytes) -> bytes:
        if not self._start and len(data) >= STATUS_LINE_BYTES and data.startswith(b"HTTP/1.1 2"):
            self._parsing = True  # nearly always
            return data
        data, self._parsing = skip_interim(self._start + data)
        self._start = b"" if self._parsing else data
        if len(self._start) > INTERIM_MAX:
            self._fail(Fault(_NOT_HTTP))
        return data

    def _end(self) -> None:
        """The answer is complete, or as much of it as is read.

        It may have come before the receiver had all of the request: a refusal, or the answer of a receiver that does
        not look at the body. A success counts only once the receiver has the rest.
        """
        if self._ended or self._answer is None:
            return
        self._ended, self._unframed = True, False
        if self._whole:
            self._finish()
        elif self._answer.is_success:
            self._finish_when_whole()
        else:
            self._keep = self._keep and not self._wire.outstanding
            self._finish()

    def _finish_when_whole(self) -> None:
        self._whole = not self._wire.outstanding
        if self._whole:
            self._finish()
        elif self._answer is not None:
            self._timer = self._loop.call_later(OUTSTANDING_EVERY_S, self._finish_when_whole)

    def _fail(self, fault: Fault) -> None:
        """End without an answer. A status that has arrived is worth more than a body that has not."""
        self._keep = False
        answer, done = self._answer, self._done
        if answer is None or done is None or done.done() or self._ended:
            return
        self._ended = True
        if answer.status is None:
            done.set_exception(fault)
        else:
            answer.fault = f"answered {answer.status}, but {_BROKE_OFF}"
            done.set_result(None)

    def _finish(self) -> None:
        if self._done is not None and not self._done.done():
            self._done.set_result(None)
