"""The REST application: the gate, then the fast routes, then all other operations."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from starlette.datastructures import State
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from holdfast.domain.retry import POLICIES
from holdfast.ingress.webhook import InboundSource
from holdfast.operations.verbs import Operations
from holdfast.ports import in_thread
from holdfast.surfaces.rest.answers import JsonAnswer
from holdfast.surfaces.rest.fast_routes import FAST_ROUTES, Endpoint
from holdfast.surfaces.rest.gate import Gate, Tokens
from holdfast.surfaces.rest.inbound import inbound_endpoints
from holdfast.surfaces.rest.problem import on_surprise
from holdfast.surfaces.rest.router import Router
from holdfast.surfaces.rest.routes import OPERATIONS

OPENAPI_PATH = "/openapi.json"


class App:
    """An ASGI application. `openapi` is its description."""

    def __init__(self, state: State, tokens: Tokens, hosts: Iterable[str], inbound: Sequence[InboundSource]) -> None:
        self.state = state
        self._inbound = inbound
        self._fast: dict[tuple[str, str], Endpoint] = {**FAST_ROUTES, **inbound_endpoints(inbound)}
        for method in ("GET", "HEAD"):
            self._fast[method, OPENAPI_PATH] = self._answer_openapi
        methods: dict[str, list[str]] = {}
        for method, path in self._fast:
            methods.setdefault(path, []).append(method)
        self._router = Router(OPERATIONS, methods)
        self._gate = Gate(self._answer, tokens, hosts, [source.path for source in inbound])
        self._document: dict[str, object] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._gate(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["app"] = self
        request = Request(scope, receive, send)
        endpoint = self._fast.get((scope["method"], scope["path"]))
        try:
            answer: ASGIApp = await (
                self._router.answer(request, self.state.operations) if endpoint is None else endpoint(request)
            )
        except Exception as error:
            answer = await on_surprise(request, error)
        await answer(scope, receive, send)

    async def _answer_openapi(self, request: Request) -> ASGIApp:
        return JsonAnswer(await in_thread("files", self.openapi))

    def openapi(self) -> dict[str, object]:
        """The OpenAPI document, made when it is first asked for."""
        if self._document is None:
            from holdfast.surfaces.rest.openapi import describe

            operations: Operations | None = self.state.operations
            self._document = describe(self._inbound, POLICIES if operations is None else operations.contracts.policies)
        return self._document


def build_app(
    operations: Operations,
    tokens: Tokens,
    hosts: Iterable[str],
    body_max_bytes: int,
    inbound: Sequence[InboundSource] = (),
) -> App:
    state = State({"operations": operations, "body_max_bytes": body_max_bytes})
    return App(state, tokens, hosts, inbound)
