"""One HTTP connection, with limits on everything a client can do before a route is reached.

Uvicorn limits neither the size of a request's head nor the time a client takes to send head and body, and its own
refusals are plain text. Here head and body are limited in time and the head in size, a body that no route reads does
not keep a connection open, and every refusal is a JSON problem.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus
from typing import Any

from starlette.types import Receive, Scope, Send
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from holdfast.surfaces.rest.event_stream import ABORT
from holdfast.surfaces.rest.joined_writes import JoinedWrites
from holdfast.surfaces.rest.problem import problem

HEAD_BYTES_MAX = 64 * 1024
HEAD_S = 15.0
BODY_S = 30.0
LINGER_S = 1.0
ABORT_S = 10.0


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
    """Uvicorn's connection with limits. `connections_max` limits how many are open at a time.

    `is_stopping`: whether the server is about to end. Uvicorn asks only the connections that are open at that moment to
    close. One that is just being accepted would be kept alive, and its requests answered while the store is closing.
    """

    connections_max = 1000
    is_stopping: Callable[[], bool] = staticmethod(lambda: False)
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
        if self.is_stopping():
            self.transport.close()
            return
        if len(self.connections) > self.connections_max:
            self._refuse(503, "Too many connections", f"{self.connections_max} are open already; try again later")
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
        elif self._in_body and self._timer is None:  # most bodies arrive together with their head and need no timer
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
        self._apply_absolute_form()
        self.server_state.default_headers = _date_header(int(time.time()))
        size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
        app = self.app
        try:
            if size > HEAD_BYTES_MAX:
                self.app = head_too_large
            super().on_headers_complete()
        finally:
            self.app = app
        self.scope[ABORT] = self._abort  # type: ignore[literal-required]
        if self.is_stopping():
            self.cycle.keep_alive = False

    def _apply_absolute_form(self) -> None:
        """In `GET http://host/path` the host of the request line replaces the Host header (RFC 9112, 3.2.2)."""
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
        """If the body is not complete yet, keep reading for `LINGER_S`, so that the client can read the response."""
        self._writes.flush()
        super().on_response_complete()
        if self.cycle.more_body and not self.pipeline and self._lingering is None:
            self._stop_timer()
            self._lingering = self.loop.call_later(LINGER_S, self.transport.close)

    def handle_websocket_upgrade(self) -> None:
        """From now on this is a connection of another kind, with limits of its own."""
        self._stop_timers()
        self._in_body = False
        super().handle_websocket_upgrade()

    def _abort(self, last: bytes) -> None:
        """Close a connection whose client reads nothing. It gets the last chunk if it reads again soon."""
        self._writes.write(b"%x\r\n%b\r\n0\r\n\r\n" % (len(last), last))
        self._writes.close()
        self.loop.call_later(ABORT_S, self._writes.abort)

    def send_400_response(self, msg: str) -> None:
        self._refuse(400, "Not HTTP", "the request cannot be parsed; see RFC 9112")

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
        """Send a response without calling a route, and close the connection."""
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


def open_socket(config: Config, server_state: ServerState, app_state: dict[str, object]) -> asyncio.Protocol:
    """A WebSocket connection. Its library is imported when the first client connects."""
    from holdfast.surfaces.rest.socket_connection import SocketConnection

    return SocketConnection(config, server_state, app_state)


def connection_class(connections_max: int, is_stopping: Callable[[], bool]) -> type[Any]:
    """The connection class of a server with this limit."""
    settings = {"connections_max": connections_max, "is_stopping": staticmethod(is_stopping)}
    return type("LimitedConnection", (LimitedConnection,), settings)
