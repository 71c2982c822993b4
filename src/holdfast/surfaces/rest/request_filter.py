"""Checks before every route: Host and Origin (DNS rebinding, cross-site requests), content type, token."""

from __future__ import annotations

import hmac
import re
import time
from collections.abc import Awaitable, Callable, Iterable

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from holdfast.domain.errors import Denied
from holdfast.domain.scopes import ADMIN, TokenScope, shown_scopes
from holdfast.domain.text import short_repr
from holdfast.surfaces.rest.problem import problem

ANY = "*/*"
BLOBS_PATH = "/api/blobs"
"""Takes a file of any type. It needs a token, which a page of another site does not have."""
OPEN_PATHS = frozenset({"/healthz", "/readyz", "/openapi.json"})
OPENED = "holdfast.opened"
"""Key in the scope of a request that needs no token because it comes from this machine."""
LOCAL = "local:"
"""How the id of a caller begins who opened the store itself. Tokens have other ids."""
LOOPBACK = ("127.", "::1", "::ffff:127.")
JSON, FORM = "application/json", "application/x-www-form-urlencoded"
CACHE_S = 1.0
CACHE_MAX = 1000
TOKEN_MAX = 256
DECISIVE = frozenset(
    {
        b"host",
        b"origin",
        b"sec-fetch-site",
        b"sec-fetch-mode",
        b"authorization",
        b"content-type",
        b"content-length",
        b"content-encoding",
        b"transfer-encoding",
        b"idempotency-key",
        b"x-substrate-principal",
    }
)

_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[^\s:/@\[\]]+)(?::[0-9]{1,5})?")


class BearerTokens:
    """Scopes of bearer tokens. The administrator's token is in a file, which may be replaced at any time; others are
    looked up by their hash."""

    def __init__(
        self, admin: str | Callable[[], str | None] | None, scope_of: Callable[[str], Awaitable[TokenScope | None]]
    ) -> None:
        self._admin = admin if callable(admin) else lambda: admin
        self._scope_of = scope_of
        self._cache: dict[str, tuple[float, TokenScope | None]] = {}

    async def scope(self, text: str) -> TokenScope | None:
        admin = self._admin()
        if admin is not None and hmac.compare_digest(text.encode(), admin.encode()):
            return ADMIN
        known = self._cache.get(text)
        if known is None or time.monotonic() - known[0] > CACHE_S:
            if len(self._cache) >= CACHE_MAX:
                self._cache.clear()
            known = self._cache[text] = (time.monotonic(), await self._scope_of(text))
        return known[1]


class RequestFilter:
    """ASGI middleware that refuses a request before its body is read.

    `open_paths` are those of inbound webhooks: they come through tunnels under any Host, and are signed instead.
    `local_paths` need no token if the client is on this machine. `is_page`: whether a path belongs to the web page,
    which takes forms and asks for a login itself. `hosts` None: the application around this one has checked the Host.
    """

    def __init__(
        self,
        app: ASGIApp,
        tokens: BearerTokens,
        hosts: Iterable[str] | None,
        open_paths: Iterable[str] = (),
        local_paths: Iterable[str] = (),
        is_page: Callable[[str], bool] = lambda path: False,
    ) -> None:
        self._app, self._tokens, self._local, self._is_page = app, tokens, frozenset(local_paths), is_page
        self._hosts = None if hosts is None else frozenset(host.lower() for host in hosts)
        self.open_paths = frozenset(open_paths)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await self._open_socket(scope, receive, send)
            return
        if scope["type"] != "http" or scope["path"] in self.open_paths:
            await self._app(scope, receive, send)
            return
        headers: dict[bytes, str] = {}
        for name, value in scope["headers"]:
            if name in DECISIVE:
                if name in headers:
                    await _ambiguous(name)(scope, receive, send)
                    return
                headers[name] = value.decode("latin-1")
        page = self._is_page(scope["path"])
        refusal = self._refuse(scope, headers, FORM if page else ANY if scope["path"] == BLOBS_PATH else JSON)
        if refusal is None and scope["path"] not in OPEN_PATHS:
            granted = scope.get("holdfast.scope") or await self._authenticate(headers)
            scope["holdfast.scope"] = granted
            scope[OPENED] = scope["path"] in self._local and _is_local(scope)
            if granted is None and not scope[OPENED] and not page:
                refusal = problem(
                    401,
                    "Unauthorized",
                    "send the header Authorization: Bearer TOKEN; the administrator's token is in HOLDFAST_HOME/token",
                    {"WWW-Authenticate": "Bearer"},
                )
        await (self._app if refusal is None else refusal)(scope, receive, send)

    async def _open_socket(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The same checks for a WebSocket. Its token comes with the first message."""
        names = [name for name, _ in scope["headers"] if name in DECISIVE]
        headers = {name: value.decode("latin-1") for name, value in scope["headers"] if name in DECISIVE}
        if len(names) > len(headers) or self._refuse({**scope, "method": "GET"}, headers, JSON) is not None:
            await send({"type": "websocket.close", "code": 1008})
            return
        await self._app(scope, receive, send)

    def _refuse(self, scope: Scope, headers: dict[bytes, str], media_type: str) -> ASGIApp | None:
        host = _host_of(headers.get(b"host", ""))
        hosts = self._hosts or frozenset({host})
        if host not in hosts:
            return problem(
                421, "Unknown host", f"this daemon does not answer to the Host {short_repr(host)}; see server.hosts"
            )
        origin = headers.get(b"origin")
        if origin is not None and _host_of(origin.partition("://")[2]) not in hosts:
            return problem(403, "Foreign origin", "requests from pages of other sites are refused")
        # A link to the web page may stand on any site: following it changes nothing.
        follows_link = media_type == FORM and scope["method"] == "GET" and headers.get(b"sec-fetch-mode") == "navigate"
        if headers.get(b"sec-fetch-site") in ("cross-site", "same-site") and not follows_link:
            return problem(403, "Foreign origin", "requests from pages of other sites are refused")
        if scope["method"] in ("POST", "PUT", "PATCH") and _has_body(headers):
            kind = headers.get(b"content-type", "").partition(";")[0].strip().lower()
            if kind != media_type != ANY:
                return problem(415, "Unsupported media type", f"send the body as {media_type}")
            if headers.get(b"content-encoding", "identity").strip().lower() != "identity":
                return problem(415, "Compressed", "compressed bodies are not accepted; send it as it is")
        return None

    async def _authenticate(self, headers: dict[bytes, str]) -> TokenScope | None:
        kind, _, text = headers.get(b"authorization", "").partition(" ")
        text = text.strip()
        return await self._tokens.scope(text) if kind.lower() == "bearer" and 0 < len(text) <= TOKEN_MAX else None


def require(needed: str) -> Callable[[Request], str]:
    """A check that the caller's token has this scope. It returns the actor for receipts."""

    def check(request: Request) -> str:
        granted: TokenScope | None = request.scope.get("holdfast.scope")
        if granted is None or not granted.allows(needed):
            yours = "none" if granted is None else shown_scopes(granted.scopes)
            raise Denied(f"this needs a token of scope {needed}; yours is {yours}")
        return granted.id if granted.id.startswith(LOCAL) else f"api:{granted.id}"

    return check


def _is_local(scope: Scope) -> bool:
    client = scope.get("client")
    return client is not None and str(client[0]).startswith(LOOPBACK)


def _ambiguous(name: bytes) -> ASGIApp:
    """A header that the checks use is given twice: a proxy in front may have used the other value."""
    return problem(400, "Ambiguous", f"the header {name.decode()} is given more than once; send it once")


def _has_body(headers: dict[bytes, str]) -> bool:
    """Whether a body is announced. A POST without one needs no content type."""
    length = headers.get(b"content-length", "0").strip()
    return length != "0" or b"transfer-encoding" in headers or b"content-type" in headers


def _host_of(value: str) -> str:
    """The host of a Host or Origin value, without its port; the whole value where it is none."""
    value = value.strip().lower()
    found = _HOST.fullmatch(value)
    return found[1] if found else value
