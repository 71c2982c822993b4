"""A response of server-sent events that ends when the view ends, the client leaves, or it stops reading."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing

from starlette.types import Receive, Scope, Send

from holdfast.domain.errors import HoldfastError
from holdfast.streams.live import View
from holdfast.streams.tail import LiveItem
from holdfast.surfaces.rest.problem import error_problem

SEND_S = 30.0
"""How long a client may take to accept data before its connection is closed."""
RETRY_MS = 1000
MEDIA_TYPE = "text/event-stream"
ABORT = "holdfast.abort"
"""The key in an ASGI scope of a function that closes the connection: it sends last bytes if the client still reads."""

_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
    (b"connection", b"close"),
]
_TOO_SLOW = {
    "type": "about:blank",
    "title": "Too slow",
    "status": 408,
    "detail": f"nothing was read for {SEND_S:g} s; resume with Last-Event-ID",
}

log = logging.getLogger("holdfast.rest")


class EventStream:
    """An ASGI application that sends the events of a view, and a comment as heartbeat.

    `event: end` says that the stream is closed and nothing will follow. Without it, the client should resume.
    """

    def __init__(self, view: View) -> None:
        self.view = view

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        left = asyncio.ensure_future(_disconnected(receive))
        sending = asyncio.ensure_future(self._send_all(scope, send))
        try:
            await asyncio.wait({left, sending}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (left, sending):
                task.cancel()
            await asyncio.gather(left, sending, return_exceptions=True)

    async def _send_all(self, scope: Scope, send: Send) -> None:
        async def body(data: bytes, more: bool = True) -> None:
            async with asyncio.timeout(SEND_S):
                await send({"type": "http.response.body", "body": data, "more_body": more})

        await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
        try:
            await body(b"retry: %d\n\n" % RETRY_MS)
            try:
                async with aclosing(self.view.items) as items:
                    async for batch in items:
                        await body(b": heartbeat\n\n" if batch is None else batch.sse)
            except HoldfastError as error:
                await body(_frame("error", bytes(error_problem(error).body)))
            except TimeoutError:
                raise
            except Exception:
                log.exception("a live view failed")
                await body(_frame("error", b'{"title":"Failed","status":500,"detail":"see the daemon\'s log"}'))
            else:
                if self.view.is_complete():
                    await body(_frame("end", b"{}"))
            await body(b"", more=False)
        except TimeoutError:
            log.info("a client of a live view read nothing for %g s and was disconnected", SEND_S)
            abort = scope.get(ABORT)
            if abort is not None:
                abort(_frame("error", json.dumps(_TOO_SLOW).encode()))


def limited(view: View, seconds: float) -> View:
    """The view for a limited time. Its client then resumes by itself, from its own position."""

    async def items() -> AsyncGenerator[LiveItem]:
        async with aclosing(view.items) as following:
            ends = time.monotonic() + seconds
            while (left := ends - time.monotonic()) > 0:
                try:
                    yield await asyncio.wait_for(anext(following), left)
                except (TimeoutError, StopAsyncIteration):
                    return

    return View(items(), view.is_complete)


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _frame(event: str, data: bytes) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (event.encode(), data)
