"""One HTTP connection, with a bound on everything a stranger may do to it before a route is reached.

Uvicorn bounds neither the head of a request nor the time somebody takes to send it, and answers in plain text what it
refuses itself. Here a head is limited in size and time, a body nobody reads does not keep a connection open, and every
refusal has the one error shape.
"""

from __future__ import annotations

import asyncio
import json
from http import HTTPStatus
from typing import Any

from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from holdfast.surfaces.rest.problem import problem

HEAD_BYTES_MAX = 64 * 1024
HEAD_S = 15.0
LINGER_S = 1.0


_TOO_LARGE = (
    431,
    "Head too large",
    f"the request line and its headers are more than {HEAD_BYTES_MAX:,} bytes; send less",
)


async def head_too_large(scope: Scope, receive: Receive, send: Send) -> None:
    await problem(*_TOO_LARGE, {"Connection": "close"})(scope, receive, send)


class Wire(HttpToolsProtocol):
    """Uvicorn's connection with bounds. `most` is how many there may be at a time."""

    most = 1000
    head_s = HEAD_S

    _timer: asyncio.TimerHandle | None = None
    _lingering: asyncio.TimerHandle | None = None
    _arrived = 0
    _head_bytes = 0
    _in_head = True

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
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

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if not self._in_head:
            self._in_head, self._head_bytes = True, self._arrived
        if self._timer is None:
            self._timer = self.loop.call_later(self.head_s, self._too_slow)

    def on_headers_complete(self) -> None:
        self._in_head, self._head_bytes = False, 0
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
        served = self.app
        try:
            if size > HEAD_BYTES_MAX:
                self.app = head_too_large
            super().on_headers_complete()
        finally:
            self.app = served

    def on_message_complete(self) -> None:
        super().on_message_complete()
        if self._lingering is not None:
            self._lingering.cancel()
            self._lingering = None

    def on_response_complete(self) -> None:
        """Answered before the body was all there: hear it out a moment, so that the answer is read, then hang up."""
        super().on_response_complete()
        if self.cycle.more_body and not self.pipeline and self._lingering is None:
            self._lingering = self.loop.call_later(LINGER_S, self.transport.close)

    def send_400_response(self, msg: str) -> None:
        self._refuse(400, "Not HTTP", "this is not a request that can be read; see RFC 9112")

    def _too_slow(self) -> None:
        self._timer = None
        if self._head_bytes:
            self._refuse(408, "Too slow", f"the head of the request was not complete after {self.head_s:g} s")
        else:
            self.transport.close()

    def _refuse(self, status: int, title: str, detail: str) -> None:
        """An answer without a request: whoever sent this gets no further."""
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

    def _stop_timers(self) -> None:
        for timer in (self._timer, self._lingering):
            if timer is not None:
                timer.cancel()
        self._timer = self._lingering = None


def wire_class(most: int) -> type[Any]:
    """The class for a server that may have so many connections."""
    return type("BoundedWire", (Wire,), {"most": most})
