"""A target URL, read and checked as far as that needs no DNS, and the request that is sent to it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import urlsplit

from holdfast.domain.errors import TargetRefused
from holdfast.net.answer import Fault
from holdfast.net.guard import Target, read_target
from holdfast.net.proxy import Proxies, Proxy

_PATH = re.compile(r"/[!-~]*")
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,256}")
_NAMES_MAX = 1024
# They say where a request ends or what becomes of the connection: that is the client's alone.
_OWN_NAMES = frozenset(
    {"content-length", "transfer-encoding", "host", "connection", "upgrade", "expect", "te", "trailer", "keep-alive"}
)


class Rule(NamedTuple):
    """How strictly addresses are judged: over http:// they must be listed; trusted ones nearly always pass."""

    plain: bool
    trusted: bool


class Pool(NamedTuple):
    """Which requests may share a connection: one of a trusted contract must not serve an untrusted one."""

    place: str
    rule: Rule
    proxy: Proxy | None


class Route(NamedTuple):
    """`place` is the host and port; `proxy` leads there, if there is one; `start` is the start of each request."""

    start: str
    target: Target
    pool: Pool

    @property
    def place(self) -> str:
        return self.pool.place

    @property
    def rule(self) -> Rule:
        return self.pool.rule

    @property
    def proxy(self) -> Proxy | None:
        return self.pool.proxy


def read_route(url: str, trusted: bool, proxies: Proxies) -> Route:
    target = read_target(url)
    # The guard's reading of the host, so that it and the client cannot differ about what the URL names.
    host = f"[{target.host}]" if ":" in target.host else target.host
    named = host if target.port == (80 if target.plain else 443) else f"{host}:{target.port}"
    parts = urlsplit(url)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    if not _PATH.fullmatch(path):
        raise TargetRefused("the URL's path holds spaces or characters outside ASCII; percent-encode them")
    start = f"POST {path} HTTP/1.1\r\nHost: {named}\r\n"
    rule = Rule(target.plain, trusted)
    return Route(start, target, Pool(f"{host}:{target.port}", rule, proxies.find(target)))


def request_bytes(route: Route, headers: Mapping[str, str], body: bytes) -> bytes:
    """The request as it goes over the wire, head and body in one piece. No header can hold a second one."""
    lines = "".join([f"{name}: {value}\r\n" for name, value in headers.items()])
    if not lines.count("\r") == lines.count("\n") == len(headers) or "\0" in lines:
        raise Fault("a header of the request holds a line break or a NUL")
    if not _may_be_set(tuple(headers)):
        raise Fault("a header of the request has a name that cannot be sent or that the client sets itself")
    try:
        return f"{route.start}{lines}Content-Length: {len(body)}\r\n\r\n".encode() + body
    except UnicodeEncodeError:
        raise Fault("a header of the request holds characters that are not Unicode") from None


@lru_cache(_NAMES_MAX)
def _may_be_set(names: tuple[str, ...]) -> bool:
    """Looked at once: the requests of one contract have the same names."""
    return all(_NAME.fullmatch(name) is not None and name.lower() not in _OWN_NAMES for name in names)
