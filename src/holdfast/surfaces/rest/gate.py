"""Checks before every route: Host and Origin (DNS rebinding, cross-site requests), content type, token."""

from __future__ import annotations

import hmac
import re
import time
from collections.abc import Awaitable, Callable, Iterable

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from holdfast.domain.errors import Denied
from holdfast.domain.text import short_repr
from holdfast.surfaces.rest.problem import problem

SCOPES = {"read": 1, "operate": 2, "admin": 3}
OPEN_PATHS = frozenset({"/healthz", "/readyz", "/openapi.json"})
CACHE_S = 1.0
CACHE_MAX = 1000
TOKEN_MAX = 256
DECISIVE = frozenset(
    {
        b"host",
        b"origin",
        b"sec-fetch-site",
        b"authorization",
        b"content-type",
        b"content-length",
        b"content-encoding",
        b"transfer-encoding",
        b"idempotency-key",
    }
)

_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[^\s:/@\[\]]+)(?::[0-9]{1,5})?")


class Tokens:
    """Scopes of bearer tokens. The administrator's token is in a file, which may be replaced at any time; others are
    looked up by their hash."""

    def __init__(
        self, admin: str | Callable[[], str | None] | None, scope_of: Callable[[str], Awaitable[str | None]]
    ) -> None:
        self._admin = admin if callable(admin) else lambda: admin
        self._scope_of = scope_of
        self._cache: dict[str, tuple[float, str | None]] = {}

    async def scope(self, text: str) -> str | None:
        admin = self._admin()
        if admin is not None and hmac.compare_digest(text.encode(), admin.encode()):
            return "admin"
        known = self._cache.get(text)
        if known is None or time.monotonic() - known[0] > CACHE_S:
            if len(self._cache) >= CACHE_MAX:
                self._cache.clear()
            known = self._cache[text] = (time.monotonic(), await self._scope_of(text))
        return known[1]


class Gate:
    """ASGI middleware that refuses a request before its body is read.

    `open_paths` are those of inbound webhooks: they come through tunnels under any Host, and are signed instead.
    """

    def __init__(self, app: ASGIApp, tokens: Tokens, hosts: Iterable[str], open_paths: Iterable[str] = ()) -> None:
        self._app, self._tokens = app, tokens
        self._hosts = frozenset(host.lower() for host in hosts)
        self._open = frozenset(open_paths)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] != "http" or scope["path"] in self._open:
            await self._app(scope, receive, send)
            return
        headers: dict[bytes, str] = {}
        for name, value in scope["headers"]:
            if name in DECISIVE:
                if name in headers:
                    await _ambiguous(name)(scope, receive, send)
                    return
                headers[name] = value.decode("latin-1")
        refusal = self._refuse(scope, headers)
        if refusal is None and scope["path"] not in OPEN_PATHS:
            scope["holdfast.scope"] = granted = await self._authenticate(headers)
            if granted is None:
                refusal = problem(
                    401,
                    "Unauthorized",
                    "send the header Authorization: Bearer TOKEN; the administrator's token is in HOLDFAST_HOME/token",
                    {"WWW-Authenticate": "Bearer"},
                )
        await (self._app if refusal is None else refusal)(scope, receive, send)

    def _refuse(self, scope: Scope, headers: dict[bytes, str]) -> ASGIApp | None:
        host = _host_of(headers.get(b"host", ""))
        if host not in self._hosts:
            return problem(
                421, "Unknown host", f"this daemon does not answer to the Host {short_repr(host)}; see server.hosts"
            )
        origin = headers.get(b"origin")
        if origin is not None and _host_of(origin.partition("://")[2]) not in self._hosts:
            return problem(403, "Foreign origin", "requests from pages of other sites are refused")
        if headers.get(b"sec-fetch-site") in ("cross-site", "same-site"):
            return problem(403, "Foreign origin", "requests from pages of other sites are refused")
        if scope["method"] in ("POST", "PUT", "PATCH") and _has_body(headers):
            kind = headers.get(b"content-type", "").partition(";")[0].strip().lower()
            if kind != "application/json":
                return problem(415, "Not JSON", "send the body as application/json")
            if headers.get(b"content-encoding", "identity").strip().lower() != "identity":
                return problem(415, "Compressed", "compressed bodies are not accepted; send it as it is")
        return None

    async def _authenticate(self, headers: dict[bytes, str]) -> str | None:
        kind, _, text = headers.get(b"authorization", "").partition(" ")
        text = text.strip()
        return await self._tokens.scope(text) if kind.lower() == "bearer" and 0 < len(text) <= TOKEN_MAX else None


def require(needed: str) -> Callable[[Request], str]:
    """A check that the caller's token has this scope. It returns the actor for receipts."""

    def check(request: Request) -> str:
        granted = request.scope.get("holdfast.scope") or ""
        if SCOPES.get(granted, 0) < SCOPES[needed]:
            raise Denied(f"this needs a token of scope {needed}; yours is {granted or 'none'}")
        return f"api:{granted}"

    return check


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
