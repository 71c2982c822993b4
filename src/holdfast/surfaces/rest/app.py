"""The REST application: the gate, then the fast routes, and all other routes once they are loaded.

Loading the other routes takes longer than the rest of a start together, and pending deliveries should not wait for it.
`warm` loads them, or the first request that needs one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from starlette.datastructures import State
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from holdfast.ingress.webhook import InboundSource
from holdfast.operations.verbs import Operations
from holdfast.ports import in_thread
from holdfast.surfaces.rest.fast_routes import FAST_ROUTES, Endpoint
from holdfast.surfaces.rest.gate import Gate, Tokens
from holdfast.surfaces.rest.inbound import inbound_routes
from holdfast.surfaces.rest.problem import on_surprise

if TYPE_CHECKING:
    from fastapi import FastAPI


class App:
    """An ASGI application. `openapi` is its description."""

    def __init__(self, state: State, tokens: Tokens, hosts: Iterable[str], inbound: Sequence[InboundSource]) -> None:
        self.state = state
        self._inbound, self._routes = inbound, inbound_routes(inbound)
        called = {(method, route.path): route.endpoint for route in self._routes for method in ("GET", "POST")}
        self._fast: dict[tuple[str, str], Endpoint] = {**FAST_ROUTES, **called}
        self._gate = Gate(self._answer, tokens, hosts, [source.path for source in inbound])
        self._api: FastAPI | None = None
        self._loading: asyncio.Task[FastAPI] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._gate(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        endpoint = self._fast.get((scope["method"], scope["path"]))
        scope["app"] = self
        request = Request(scope, receive, send)
        try:
            answer: ASGIApp = (self._api or await self.warm()) if endpoint is None else await endpoint(request)
        except Exception as error:
            answer = await on_surprise(request, error)
        await answer(scope, receive, send)

    async def warm(self) -> FastAPI:
        """All routes, loaded once, in a thread."""
        if self._loading is None or (self._loading.done() and self._loading.exception() is not None):
            self._loading = asyncio.get_running_loop().create_task(self._load_in_thread())
        return await asyncio.shield(self._loading)  # a client that hangs up must not cancel it for others

    async def _load_in_thread(self) -> FastAPI:
        return await in_thread("files", self._load)

    def openapi(self) -> dict[str, Any]:
        return self._load().openapi()

    def _load(self) -> FastAPI:
        if self._api is None:
            from holdfast.surfaces.rest.api import build_api

            self._api = build_api(self.state, self._inbound, self._routes)
        return self._api


def build_app(
    operations: Operations,
    tokens: Tokens,
    hosts: Iterable[str],
    body_max_bytes: int,
    inbound: Sequence[InboundSource] = (),
) -> App:
    state = State({"operations": operations, "body_max_bytes": body_max_bytes})
    return App(state, tokens, hosts, inbound)
