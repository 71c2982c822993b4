"""The REST application: the gate, then the fast routes, then all other operations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from starlette.datastructures import State
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from holdfast.domain.retry import POLICIES
from holdfast.ingress.webhook import InboundSource
from holdfast.operations.verbs import Operations
from holdfast.ports import in_thread
from holdfast.surfaces.mcp.endpoint import PATHS as MCP_PATHS
from holdfast.surfaces.mcp.endpoint import McpEndpoint
from holdfast.surfaces.rest.answers import JsonAnswer
from holdfast.surfaces.rest.fast_routes import FAST_ROUTES, METRICS_PATH, Endpoint
from holdfast.surfaces.rest.inbound import inbound_endpoints
from holdfast.surfaces.rest.live_socket import LiveSocket
from holdfast.surfaces.rest.problem import on_surprise
from holdfast.surfaces.rest.request_filter import BearerTokens, RequestFilter
from holdfast.surfaces.rest.router import Router
from holdfast.surfaces.rest.routes import OPERATIONS
from holdfast.surfaces.web.access import Cookies
from holdfast.surfaces.web.site import Site

OPENAPI_PATH = "/openapi.json"


class App:
    """An ASGI application. `openapi` is its description."""

    def __init__(
        self,
        state: State,
        tokens: BearerTokens,
        hosts: Iterable[str] | None,
        inbound: Sequence[InboundSource],
        local_paths: Iterable[str] = (),
        site: Site | None = None,
    ) -> None:
        self.state, self._site = state, site
        self._mcp = McpEndpoint()
        self._filter = RequestFilter(self._answer, tokens, hosts, (), local_paths, self._is_page)
        self._sockets = LiveSocket(tokens, lambda: self.state.operations)
        self.replace_inbound(inbound)

    def replace_inbound(self, inbound: Sequence[InboundSource]) -> None:
        """Receive webhooks of these sources, and of no others, from now on."""
        self._inbound = inbound
        self._fast: dict[tuple[str, str], Endpoint] = {**FAST_ROUTES, **inbound_endpoints(inbound)}
        for path in MCP_PATHS:
            self._fast["POST", path] = self._mcp
        for method in ("GET", "HEAD"):
            self._fast[method, OPENAPI_PATH] = self._answer_openapi
        methods: dict[str, list[str]] = {}
        for method, path in self._fast:
            methods.setdefault(path, []).append(method)
        self._router = Router(OPERATIONS, methods)
        self._filter.open_paths = frozenset(source.path for source in inbound)
        self._document: dict[str, object] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._filter(scope, receive, send)

    def _is_page(self, path: str) -> bool:
        """Whether a path belongs to the web page. Paths of inbound webhooks come first."""
        return self._site is not None and self._site.serves(path)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await self._sockets(scope, receive, send)
            return
        scope["app"] = self
        if (
            self._site is not None
            and (scope["method"], scope["path"]) not in self._fast
            and self._is_page(scope["path"])
        ):
            await self._site(scope, receive, send)
            return
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
    tokens: BearerTokens,
    hosts: Iterable[str] | None,
    body_max_bytes: int,
    inbound: Sequence[InboundSource] = (),
    *,
    open_metrics: bool = False,
    page_secret: Callable[[], str | None] | None = None,
    live_s: float | None = None,
) -> App:
    """`open_metrics`: clients on this machine need no token for `/metrics`.

    `page_secret`: the text that signs the cookies of the web page; None: there is no page. `live_s`: how long a
    connection for its live updates lasts; None: as long as this process.
    """
    state = State({"operations": operations, "body_max_bytes": body_max_bytes})
    site = None if page_secret is None else Site(operations, Cookies(page_secret), live_s)
    return App(state, tokens, hosts, inbound, (METRICS_PATH,) if open_metrics else (), site)
