"""The proxy for outgoing requests: from `egress.proxy`, or from the environment if that is `env`.

Every target is reached by CONNECT, http:// ones too: inside a tunnel every answer is the receiver's, so an error page
of the proxy cannot be taken for it.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Network, IPv6Network, ip_address, ip_network
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

from holdfast.domain.errors import BadConfig, TargetRefused
from holdfast.net.guard import TargetHost, read_target

ENVIRONMENT = "env"

_STATUS = re.compile(rb"HTTP/1\.[01] ([1-9][0-9][0-9])(?:[ \r\n]|$)")


@dataclass(frozen=True, slots=True)
class Proxy:
    """Host and port of a proxy, and the value of `Proxy-Authorization`, which is shown nowhere."""

    host: str
    port: int
    secured: bool
    authorization: str | None = field(default=None, repr=False)

    @property
    def name(self) -> str:
        """The name for messages: without user and password."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def connect_request(self, authority: str) -> bytes:
        """The request for a tunnel to a host and port."""
        lines = [f"CONNECT {authority} HTTP/1.1", f"Host: {authority}"]
        if self.authorization is not None:
            lines.append(f"Proxy-Authorization: {self.authorization}")
        return "\r\n".join([*lines, "", ""]).encode("ascii")


def connect_status(head: bytes) -> int | None:
    """The status of a proxy's answer; None if it is not HTTP."""
    found = _STATUS.match(head)
    return int(found[1]) if found is not None else None


class Exemption(NamedTuple):
    """One entry of NO_PROXY: a network or the end of a name, optionally for one port only."""

    network: IPv4Network | IPv6Network | None
    suffix: str
    port: int | None

    def covers(self, target: TargetHost) -> bool:
        if self.port is not None and self.port != target.port:
            return False
        if target.address is not None:
            return self.network is not None and ip_address(target.address) in self.network
        name = target.host.rstrip(".")
        return bool(self.suffix) and (name == self.suffix or name.endswith(f".{self.suffix}"))


@dataclass(frozen=True, slots=True)
class Proxies:
    """Which proxy is used for which target.

    >>> proxies = read_proxies("http://proxy.example:3128", {})
    >>> proxies.find(read_target("https://hooks.example/"))
    Proxy(host='proxy.example', port=3128, secured=False)
    """

    https: Proxy | None = None
    http: Proxy | None = None
    exempt: tuple[Exemption, ...] = ()
    exempt_all: bool = False

    def find(self, target: TargetHost) -> Proxy | None:
        proxy = self.http if target.plain else self.https
        # At the proxy, `localhost` would be the proxy's own machine.
        if proxy is None or self.exempt_all or target.is_localhost or _is_loopback(target.address):
            return None
        return None if any(entry.covers(target) for entry in self.exempt) else proxy


DIRECT = Proxies()


def read_proxies(setting: str, environment: Mapping[str, str]) -> Proxies:
    """Read the setting `egress.proxy`: empty, a URL, or `env`."""
    if not setting:
        return DIRECT
    if setting != ENVIRONMENT:
        proxy = _read_proxy(setting, "egress.proxy")
        return Proxies(proxy, proxy)
    exempt = re.split(r"[,\s]+", _variable(environment, "NO_PROXY")[1])
    found = {name: _variable(environment, name) for name in ("HTTPS_PROXY", "HTTP_PROXY")}
    https, http = (_read_proxy(value, name) if value else None for name, value in found.values())
    return Proxies(https, http, tuple(_exemption(entry) for entry in exempt if entry), "*" in exempt)


def _variable(environment: Mapping[str, str], name: str) -> tuple[str, str]:
    """The spelling of the variable that is set, and its value. Lower case goes first, as in curl."""
    for spelled in (name.lower(), name):
        if value := environment.get(spelled, "").strip():
            return spelled, value
    return name, ""


def _read_proxy(text: str, where: str) -> Proxy:
    """Read a proxy URL. Error messages do not quote it, because it may hold a password."""
    scheme, mark, rest = text.partition("://")
    if not mark:
        scheme, rest = "http", text
    if scheme.lower() not in ("http", "https"):
        raise BadConfig(
            f"{where} must be a URL such as http://proxy.example:3128; only http:// and https:// proxies work"
        )
    # The password may contain any character, also an @ that is not encoded: the last @ ends it.
    private, _, authority = rest.rstrip("/").rpartition("@")
    try:
        target = read_target(f"{scheme.lower()}://{authority}")
        if re.search(r"[/?#\s]", authority) or target.port == 0:
            raise ValueError("more than a host and a port")
    except (TargetRefused, ValueError):
        raise BadConfig(f"{where} must be a URL of a host and a port, such as http://proxy.example:3128") from None
    return Proxy(target.host, target.port, not target.plain, _basic(private) if private else None)


def _basic(private: str) -> str:
    user, _, password = private.partition(":")
    return f"Basic {b64encode(unquote_to_bytes(user) + b':' + unquote_to_bytes(password)).decode('ascii')}"


def _exemption(entry: str) -> Exemption:
    host, port = entry.lower(), None
    if found := re.fullmatch(r"(\[[^\]]*\]|[^:]*):([0-9]{1,5})", host):
        host, port = found[1], int(found[2])
    try:
        return Exemption(ip_network(host.strip("[]"), strict=False), "", port)
    except ValueError:
        return Exemption(None, host.removeprefix("*").strip("."), port)


def _is_loopback(address: str | None) -> bool:
    if address is None:
        return False
    found = ip_address(address)
    mapped = getattr(found, "ipv4_mapped", None)
    return found.is_loopback or (isinstance(mapped, IPv4Address) and mapped.is_loopback)
