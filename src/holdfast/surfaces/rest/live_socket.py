"""`WS /api/streams/{id}/ws`: a stream's tail as WebSocket messages.

The first message of the client authenticates and says where to begin: `{"token": "hf_…", "after": 7}`. A token never
stands in a URL, and a browser cannot set headers for a WebSocket.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Callable
from contextlib import aclosing
from typing import TypeGuard

from starlette.types import Receive, Scope, Send

from holdfast.domain.errors import BadInput, Denied, HoldfastError
from holdfast.domain.json_value import JsonObject
from holdfast.operations.verbs import Operations
from holdfast.streams.live import View
from holdfast.surfaces.rest import event_stream
from holdfast.surfaces.rest.problem import error_problem
from holdfast.surfaces.rest.request_filter import TOKEN_MAX, BearerTokens

FIRST_S = 10.0
"""How long a client may take to send its first message."""
NORMAL, POLICY, RESTART = 1000, 1008, 1012
"""Close codes of RFC 6455 and its registry."""

_PATH = re.compile(r"/api/streams/(.+)/ws", re.DOTALL)

log = logging.getLogger("holdfast.rest")


class LiveSocket:
    """An ASGI application for WebSocket connections. Each message is an object with one key that says what it is:

    `event`, `heartbeat`, `end` (the stream is closed), `error` (an error as in every response).
    """

    def __init__(self, tokens: BearerTokens, operations: Callable[[], Operations]) -> None:
        self._tokens, self._operations = tokens, operations

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        found = _PATH.fullmatch(scope["path"])
        await receive()  # websocket.connect
        if found is None:
            await send({"type": "websocket.close", "code": POLICY})
            return
        await send({"type": "websocket.accept"})
        try:
            first = await _first_message(receive)
            if first is None:
                return
            view = await self._view(found[1], first)
        except HoldfastError as error:
            await _send_error(send, error)
            return
        left = asyncio.ensure_future(_disconnected(receive))
        sending = asyncio.ensure_future(_send_all(view, scope, send))
        try:
            await asyncio.wait({left, sending}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (left, sending):
                task.cancel()
            await asyncio.gather(left, sending, return_exceptions=True)

    async def _view(self, stream: str, first: JsonObject) -> View:
        token, after, wait = first.get("token"), first.get("after"), first.get("wait", False)
        if not isinstance(token, str) or not 0 < len(token) <= TOKEN_MAX:
            raise Denied('send {"token": "…"} as the first message')
        granted = await self._tokens.scope(token)
        if granted is None or not granted.allows("read"):
            raise Denied("this needs a valid token of scope read")
        if not _is_position(after) or not isinstance(wait, bool):
            raise BadInput("after must be the seq of the last event received, and wait true or false")
        return await self._operations().live.tail(stream, after=after, wait=wait)


def _is_position(after: object) -> TypeGuard[int | None]:
    return after is None or (isinstance(after, int) and not isinstance(after, bool) and 0 <= after < 2**62)


async def _first_message(receive: Receive) -> JsonObject | None:
    """The client's first message; None if it left."""
    try:
        async with asyncio.timeout(FIRST_S):
            message = await receive()
    except TimeoutError:
        raise Denied(f'send {{"token": "…"}} as the first message, within {FIRST_S:g} s') from None
    if message["type"] == "websocket.disconnect":
        return None
    try:
        first = json.loads(message.get("text") or "")
    except (ValueError, RecursionError):
        first = None
    if not isinstance(first, dict):
        raise Denied('send {"token": "…"} as the first message')
    return first


async def _send_all(view: View, scope: Scope, send: Send) -> None:
    async def text(message: str) -> None:
        async with asyncio.timeout(event_stream.SEND_S):
            await send({"type": "websocket.send", "text": message})

    try:
        async with aclosing(view.items) as items:
            async for batch in items:
                for message in ('{"heartbeat":{}}',) if batch is None else batch.messages:
                    await text(message)
        if view.is_complete():
            await text('{"end":{}}')
        await send({"type": "websocket.close", "code": NORMAL if view.is_complete() else RESTART})
    except HoldfastError as error:
        await _send_error(send, error)
    except TimeoutError:
        log.info("a client of a live view read nothing for %g s and was disconnected", event_stream.SEND_S)
        abort = scope.get(event_stream.ABORT)
        if abort is not None:
            abort(b"")


async def _send_error(send: Send, error: HoldfastError) -> None:
    problem = bytes(error_problem(error).body).decode()
    await send({"type": "websocket.send", "text": f'{{"error":{problem}}}'})
    await send({"type": "websocket.close", "code": POLICY, "reason": type(error).__name__})


async def _disconnected(receive: Receive) -> None:
    """Later messages of the client are read and ignored."""
    while (await receive())["type"] != "websocket.disconnect":
        pass
