"""One HTTP connection, with limits on everything a client can do before a route is reached.

Uvicorn limits neither the size of a request's head nor the time a client takes to send head and body, and it answers in
plain text what it refuses itself. Here head and body are limited in time, the head in size, a body that no route reads
does not keep a connection open, and every refusal has the one error shape.
"""

from __future__ import annotations

import asyncio
import json
import time
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus
from typing import Any

from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from holdfast.surfaces.rest.joined_writes import JoinedWrites
from holdfast.surfaces.rest.problem import problem

HEAD_BYTES_MAX = 64 * 1024
HEAD_S = 15.0
BODY_S = 30.0
LINGER_S = 1.0


_TOO_LARGE = (
    431,
    "Head too large",
    f"the request line and its headers are more than {HEAD_BYTES_MAX:,} bytes; send less",
)


async def head_too_large(scope: Scope, receive: Receive, send: Send) -> None:
    await problem(*_TOO_LARGE, {"Connection": "close"})(scope, receive, send)


@lru_cache(maxsize=1)
def _date_header(second: int) -> list[tuple[bytes, bytes]]:
    return [(b"date", formatdate(second, usegmt=True).encode())]


class LimitedConnection(HttpToolsProtocol):
    """Uvicorn's connection with limits. `most` is how many there may be at a time."""

    most = 1000
    head_s = HEAD_S
    body_s = BODY_S

    _writes: JoinedWrites
    _timer: asyncio.TimerHandle | None = None
    _lingering: asyncio.TimerHandle | None = None
    _arrived = 0
    _head_bytes = 0
    _in_head = True
    _in_body = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.transport = self._writes = JoinedWrites(transport, self.loop)  # type: ignore[assignment]
        if len(self.connections) > self.most:
            self._refuse(503, "Too many connections", f"{self.most} are open already; try again later")
            return
        self._timer = self.loop.call_later(self.head_s, self._too_slow)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timers()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        self._arrived = len(data)
        if self._in_head:
            self._head_bytes += len(data)
        super().data_received(data)
        if self._in_head and self._head_bytes > HEAD_BYTES_MAX and not self.transport.is_closing():
            self._refuse(*_TOO_LARGE)
        elif self._in_body and self._timer is None:  # most bodies come with their head and need no timer
            self._timer = self.loop.call_later(self.body_s, self._too_slow)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if not self._in_head:
            self._in_head, self._head_bytes = True, self._arrived
        if self._timer is None:
            self._timer = self.loop.call_later(self.head_s, self._too_slow)

    def on_headers_complete(self) -> None:
        self._in_head, self._head_bytes, self._in_body = False, 0, True
        self._stop_timer()
        self._honour_absolute_form()
        self.server_state.default_headers = _date_header(int(time.time()))
        size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
        served = self.app
        try:
            if size > HEAD_BYTES_MAX:
                self.app = head_too_large
            super().on_headers_complete()
        finally:
            self.app = served

    def _honour_absolute_form(self) -> None:
        """`GET http://host/path`: then the host in the request line counts, and not the header (RFC 9112, 3.2.2)."""
        if self.url[:1] in (b"/", b"*") or b"://" not in self.url:
            return
        host = self.url.partition(b"://")[2].partition(b"/")[0].partition(b"?")[0]
        self.headers[:] = [(name, value) for name, value in self.headers if name != b"host"] + [(b"host", host)]

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._in_body = False
        self._stop_timer()
        if self._lingering is not None:
            self._lingering.cancel()
            self._lingering = None

    def on_response_complete(self) -> None:
        """Answered before the body was complete: read on for a moment, so that the client reads the answer."""
        self._writes.flush()
        super().on_response_complete()
        if self.cycle.more_body and not self.pipeline and self._lingering is None:
            self._stop_timer()
            self._lingering = self.loop.call_later(LINGER_S, self.transport.close)

    def send_400_response(self, msg: str) -> None:
        self._refuse(400, "Not HTTP", "this is not a request that can be read; see RFC 9112")

    def _too_slow(self) -> None:
        self._timer = None
        if self._in_body:
            detail = f"the body was not complete after {self.body_s:g} s, so nothing was accepted; send it again"
            self._refuse(408, "Too slow", detail)
        elif self._head_bytes:
            self._refuse(408, "Too slow", f"the head of the request was not complete after {self.head_s:g} s")
        else:
            self.transport.close()

    def _refuse(self, status: int, title: str, detail: str) -> None:
        """Answer without a route and close the connection."""
        body = json.dumps({"type": "about:blank", "title": title, "status": status, "detail": detail}).encode()
        head = [
            f"HTTP/1.1 {status} {HTTPStatus(status).phrase}",
            "content-type: application/problem+json",
            f"content-length: {len(body)}",
            "connection: close",
            *(["retry-after: 1"] if status == 503 else []),
        ]
        self.transport.write("\r\n".join([*head, "", ""]).encode("ascii") + body)
        self.transport.close()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _stop_timers(self) -> None:
        self._stop_timer()
        if self._lingering is not None:
            self._lingering.cancel()
            self._lingering = None


def connection_class(most: int) -> type[Any]:
    """The class for a server that may have so many connections."""
    return type("LimitedConnection", (LimitedConnection,), {"most": most})
