"""A route: a target URL, parsed and checked as far as possible without DNS, and the bytes of a request to it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import urlsplit

from holdfast.domain.errors import TargetRefused
from holdfast.net.answer import RequestError
from holdfast.net.guard import TargetHost, read_target
from holdfast.net.proxy import Proxies, Proxy

_PATH = re.compile(r"/[!-~]*")
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,256}")
_NAMES_MAX = 1024
# Headers that frame the request or control the connection: only the client sets them.
_OWN_NAMES = frozenset(
    {"content-length", "transfer-encoding", "host", "connection", "upgrade", "expect", "te", "trailer", "keep-alive"}
)


class GuardRule(NamedTuple):
    """How strictly the guard checks addresses: http:// targets must be listed, trusted ones nearly all pass."""

    plain: bool
    trusted: bool


class PoolKey(NamedTuple):
    """Requests with the same key may share a connection. Trusted and untrusted contracts never share one."""

    authority: str
    rule: GuardRule
    proxy: Proxy | None


class Route(NamedTuple):
    """Where a request goes. `start` is the request line and the Host header; `authority` is host and port."""

    start: str
    target: TargetHost
    pool: PoolKey

    @property
    def authority(self) -> str:
        return self.pool.authority

    @property
    def rule(self) -> GuardRule:
        return self.pool.rule

    @property
    def proxy(self) -> Proxy | None:
        return self.pool.proxy


def read_route(url: str, trusted: bool, proxies: Proxies) -> Route:
    target = read_target(url)
    # The host as the guard parsed it, so that guard and client cannot disagree about it.
    host = f"[{target.host}]" if ":" in target.host else target.host
    named = host if target.port == (80 if target.plain else 443) else f"{host}:{target.port}"
    parts = urlsplit(url)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    if not _PATH.fullmatch(path):
        raise TargetRefused("the URL's path holds spaces or characters outside ASCII; percent-encode them")
    start = f"POST {path} HTTP/1.1\r\nHost: {named}\r\n"
    rule = GuardRule(target.plain, trusted)
    return Route(start, target, PoolKey(f"{host}:{target.port}", rule, proxies.find(target)))


def request_bytes(route: Route, headers: Mapping[str, str], body: bytes) -> bytes:
    """Head and body of a request in one piece. A header that would inject another one is refused."""
    lines = "".join([f"{name}: {value}\r\n" for name, value in headers.items()])
    if not lines.count("\r") == lines.count("\n") == len(headers) or "\0" in lines:
        raise RequestError("a header of the request holds a line break or a NUL")
    if not _may_be_set(tuple(headers)):
        raise RequestError("a header of the request has a name that cannot be sent or that the client sets itself")
    try:
        return f"{route.start}{lines}Content-Length: {len(body)}\r\n\r\n".encode() + body
    except UnicodeEncodeError:
        raise RequestError("a header of the request holds characters that are not Unicode") from None


@lru_cache(_NAMES_MAX)
def _may_be_set(names: tuple[str, ...]) -> bool:
    """Cached, because all requests of one contract have the same header names."""
    return all(_NAME.fullmatch(name) is not None and name.lower() not in _OWN_NAMES for name in names)
