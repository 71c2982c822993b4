"""The ASGI application of the page: static files, login, screens and buttons."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from urllib.parse import parse_qs, quote

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import compile_path
from starlette.types import ASGIApp, Receive, Scope, Send

from holdfast.domain.errors import Denied, HoldfastError, NotFound, TooLarge
from holdfast.domain.scopes import TokenScope
from holdfast.operations.verbs import Operations
from holdfast.surfaces.rest.event_stream import EventStream, limited
from holdfast.surfaces.rest.problem import STATUS
from holdfast.surfaces.web.access import Cookies
from holdfast.surfaces.web.actions import ACTIONS, Fields
from holdfast.surfaces.web.contract_form import submit
from holdfast.surfaces.web.done import sentence
from holdfast.surfaces.web.page import Go, Page, Visit
from holdfast.surfaces.web.pages import PAGES
from holdfast.surfaces.web.render import render
from holdfast.surfaces.web.static_files import static_file, version
from holdfast.surfaces.web.trouble import Findings, Trouble

FORM_MAX = 256 * 1024
LIVE = "/live"
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",  # with no-referrer, browsers send forms with the Origin null
    "Cache-Control": "no-store",
}
log = logging.getLogger("holdfast.web")


class Site:
    """Answers the paths of the page. The request's Host and Origin were checked before."""

    def __init__(self, operations: Operations, cookies: Cookies, live_s: float | None = None) -> None:
        """`live_s`: how long one connection for live updates lasts; None: as long as this process."""
        self._operations, self._cookies, self._live_s = operations, cookies, live_s
        self._trouble, self._running = Trouble(operations), dict[str, asyncio.Task[object]]()
        self._pages = [(compile_path(path)[0], page) for path, page in PAGES]
        self._actions = [(compile_path(action.path)[0], action) for action in ACTIONS]

    def serves(self, path: str) -> bool:
        """Whether a path belongs to the page."""
        return (
            path in ("/login", "/logout", LIVE)
            or path.startswith("/static/")
            or any(pattern.match(path) for pattern, _ in self._pages)
            or any(pattern.match(path) for pattern, _ in self._actions)
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive, send)
        try:
            answer = await self._answer(request)
        except HoldfastError as error:
            answer = await self._problem(request, error)
        except Exception:
            log.exception("%s %s failed", request.method, path_of(scope))
            answer = await self._page(
                request, None, Page("problem.html", "Failed", {"message": "See the log of the daemon."}), 500
            )
        await answer(scope, receive, send)

    async def _answer(self, request: Request) -> ASGIApp:
        path, method = path_of(request.scope), request.method
        if path.startswith("/static/"):
            return static_file(path.removeprefix("/static/"), request)
        if path == "/login":
            return await self._login(request)
        granted = self._granted(request)
        if granted is None and request.headers.get("sec-fetch-site") == "cross-site":
            # A browser sends no cookie of mode Strict with a link from another site, but with a reload it does.
            return await self._page(request, None, Page("reload.html", "Holdfast"))
        if granted is None:
            return await self._page(request, None, Page("login.html", "Log in", {"code": None}), 401)
        if path == "/logout" and method == "POST":
            answer = RedirectResponse(_base(request) + "/login", 303, headers=HEADERS)
            self._cookies.remove(answer, request)
            return answer
        if method == "POST":
            return await self._post(request, granted, path)
        if not granted.allows("read"):
            raise Denied("You may not read here: this login has no scope read.")
        if path == LIVE:
            view = await self._operations.live.feed(last_event_id=request.headers.get("last-event-id"))
            return EventStream(view if self._live_s is None else limited(view, self._live_s))
        for pattern, function in self._pages:
            if match := pattern.match(path):
                shown = await function(self._visit(request, granted, match.groupdict()))
                return _redirect(request, shown) if isinstance(shown, Go) else await self._page(request, granted, shown)
        raise NotFound("There is no page at this address.")

    def _granted(self, request: Request) -> TokenScope | None:
        """What the visitor may do: decided by the application that mounted the page, by a token, or by the cookie."""
        known: TokenScope | None = request.scope.get("holdfast.scope")
        return known if known is not None else self._cookies.granted(request)

    def _visit(self, request: Request, granted: TokenScope, parameters: Mapping[str, str]) -> Visit:
        return Visit(self._operations, granted, request, parameters, self._trouble, self._running)

    async def _post(self, request: Request, granted: TokenScope, path: str) -> ASGIApp:
        fields = await _read_form(request)
        self._trouble.forget()
        if path == "/contracts/new":
            _require(granted, "admin")
            done = await submit(self._visit(request, granted, {}), fields)
            return _redirect(request, done) if isinstance(done, Go) else await self._page(request, granted, done)
        for pattern, action in self._actions:
            if match := pattern.match(path):
                _require(granted, action.needs)
                done = await action.run(self._visit(request, granted, match.groupdict()), fields)
                self._trouble.forget()
                return _redirect(request, done)
        raise NotFound("There is nothing to do at this address.")

    async def _login(self, request: Request) -> ASGIApp:
        if request.method == "POST":
            code = (await _read_form(request)).get("code", [""])[0]
            granted = self._operations.login.codes.use(code)
            if granted is None:
                return await self._page(request, None, Page("login.html", "Log in", {"code": None, "used": True}), 403)
            answer = RedirectResponse(_base(request) + "/", 303, headers=HEADERS)
            self._cookies.grant(answer, request, granted)
            return answer
        code = request.query_params.get("code", "")
        valid = code if self._operations.login.codes.is_valid(code) else None
        return await self._page(
            request, None, Page("login.html", "Log in", {"code": valid, "used": bool(code) and not valid})
        )

    async def _page(self, request: Request, granted: TokenScope | None, page: Page, status: int = 200) -> Response:
        values: dict[str, object] = {
            "base": _base(request),
            "path": path_of(request.scope),
            "version": version(),
            "title": page.title,
            "done": sentence(request.query_params),
            "may": (lambda scope: granted is not None and granted.allows(scope)),
            "used": False,
            "trouble": None,
        }
        if granted is not None and granted.allows("read"):
            values["trouble"] = await self._findings()
        return HTMLResponse(render(page.template, **values | page.values), status, headers=HEADERS)

    async def _findings(self) -> Findings | None:
        """What needs attention. A store that cannot answer must not hide the page that says so."""
        try:
            return await self._trouble.findings()
        except HoldfastError:
            return None

    async def _problem(self, request: Request, error: HoldfastError) -> Response:
        status = next(status for kind, status, _ in STATUS if isinstance(error, kind))
        page = Page("problem.html", "This did not work", {"message": error.message})
        return await self._page(request, self._granted(request), page, status)


def path_of(scope: Scope) -> str:
    """The path below the place where the application is mounted."""
    path, root = str(scope["path"]), str(scope.get("root_path", ""))
    return (path[len(root) :] if root and path.startswith(root) else path) or "/"


def _base(request: Request) -> str:
    return str(request.scope.get("root_path", "")).rstrip("/")


def _require(granted: TokenScope, scope: str) -> None:
    if not granted.allows(scope):
        raise Denied(f"This needs the scope {scope}, which this login does not have.")


def _redirect(request: Request, go: Go) -> Response:
    return RedirectResponse(f"{_base(request)}{quote(go.path, safe='/%')}{go.query}", 303, headers=HEADERS)


async def _read_form(request: Request) -> Fields:
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > FORM_MAX:
            raise TooLarge("The form is too large.")
    return parse_qs(body.decode("utf-8", "replace"), max_num_fields=2000)
