"""The outbound guard: which hosts a webhook may reach. The same rule applies to creating, testing and sending.

Every address outside the public internet is refused unless the operator listed its network (`egress.allow`). The guard
has a table of its own, because `ipaddress.is_global` changes between patch releases and allows tunnels, NAT64 and
metadata services.
"""

from __future__ import annotations

import asyncio
import errno
import re
import socket
import unicodedata
from collections.abc import Collection, Iterator, Sequence
from functools import partial
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import NamedTuple, TypeAlias
from urllib.parse import unquote, urlsplit

from holdfast.domain.errors import BadConfig, TargetRefused
from holdfast.domain.text import short_repr
from holdfast.net.refusal import MAPPED, NAT64, RESTART, Remedy, is_loopback, refusal_text, unwrapped
from holdfast.ports import in_thread

DNS_S = 5.0
ANSWERS_MAX = 16

IP = IPv4Address | IPv6Address
AddressInfo: TypeAlias = tuple[
    socket.AddressFamily, socket.SocketKind, int, str, tuple[str, int] | tuple[str, int, int, int] | tuple[int, bytes]
]


class BlockedRange(NamedTuple):
    """One line of the table. `exact`: only the exact address in `egress.allow` permits it, not a network or trust."""

    network: IPv4Network | IPv6Network
    reason: str
    exact: bool


def _ranges(reason: str, *networks: str, exact: bool = False) -> Iterator[BlockedRange]:
    return (BlockedRange(ip_network(network), reason, exact) for network in networks)


# The first matching line gives the reason, so specific ranges stand before general ones.
TABLE: tuple[BlockedRange, ...] = (
    *_ranges("a cloud metadata service", "169.254.169.254", "168.63.129.16", "100.100.100.200", exact=True),
    *_ranges("a cloud metadata service", "192.0.0.192", "fd00:ec2::254", "fd20:ce::254", exact=True),
    *_ranges("a link-local address", "169.254.0.0/16", "fe80::/10", exact=True),
    *_ranges("a loopback address", "127.0.0.0/8", "::1"),
    *_ranges("the unspecified address or part of 'this network'", "0.0.0.0/8", "::"),
    *_ranges("a private address", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7", "fec0::/10"),
    *_ranges("a shared carrier address", "100.64.0.0/10"),
    *_ranges("set aside for protocols", "192.0.0.0/24", "2001::/23", "5f00::/16"),
    *_ranges("a documentation address", "192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24"),
    *_ranges("a documentation address", "2001:db8::/32", "3fff::/20"),
    *_ranges("a benchmarking address", "198.18.0.0/15"),
    *_ranges("a broadcast address", "255.255.255.255"),
    *_ranges("a multicast address", "224.0.0.0/4", "ff00::/8"),
    *_ranges("a reserved address", "240.0.0.0/4"),
    *_ranges("a 6to4 relay or tunnel", "192.88.99.0/24", "2002::/16"),
    *_ranges("a translated IPv4 address", "64:ff9b:1::/48", "::ffff:0:0:0/96", "::/96"),
    *_ranges("a discard-only address", "100::/64"),
    *_ranges("a reserved address", "::/8"),
)
_ISATAP = "an ISATAP tunnel"
_GLOBAL_V6 = IPv6Network("2000::/3")  # all addresses assigned so far; everything outside is refused
_IPV4_LAST = (IPv6Network("::/96"), IPv6Network("::ffff:0:0:0/96"), IPv6Network("64:ff9b:1::/48"))
_6TO4 = IPv6Network("2002::/16")
_LOCALHOST = ("localhost", "localhost.localdomain", "ip6-localhost", "ip6-loopback")
_BRACKETED = re.compile(r"\[([^\[\]]*)\](?::[0-9]*)?")
_NAME = re.compile(r"(?:[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?\.)*[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?\.?")

# Ports of services other than web servers: a POST there is an attack or a mistake.
CLOSED_PORTS = frozenset(
    {
        1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102, 103, 104, 109,
        110, 111, 113, 115, 117, 119, 123, 135, 137, 138, 139, 143, 161, 179, 389, 427, 445, 465, 512, 513, 514, 515,
        526, 530, 531, 532, 540, 548, 554, 556, 563, 587, 601, 636, 873, 989, 990, 993, 995, 1433, 1521, 1719, 1720,
        1723, 1883, 2049, 2181, 2375, 2376, 2379, 2380, 3306, 3389, 3659, 4045, 4190, 4222, 5060, 5061, 5432, 5672,
        5900, 6000, 6379, 6432, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 9042, 9092, 10080, 10250, 11211, 27017,
    }
)  # fmt: skip


class TargetHost(NamedTuple):
    """The host and port of a target URL. `address` is set if the host is an IP address in any spelling."""

    host: str
    port: int
    plain: bool
    address: str | None

    @property
    def is_localhost(self) -> bool:
        name = self.host.rstrip(".")
        return name in _LOCALHOST or name.endswith(".localhost")


class Guard:
    """Checks targets. `allow` lists the networks that are permitted beyond the public internet.

    `loopback_ports`: ports of this machine that are permitted too. `remedy`: for the text of a refusal.

    >>> Guard().forbids("127.0.0.1")
    '127.0.0.1 is a loopback address'
    >>> Guard(["127.0.0.0/8"]).forbids("127.0.0.1") is None
    True
    """

    def __init__(
        self, allow: Sequence[str] = (), *, loopback_ports: Collection[int] = (), remedy: Remedy = RESTART
    ) -> None:
        self._loopback_ports, self._remedy = frozenset(loopback_ports), remedy
        self.allow(allow)

    def allow(self, networks: Sequence[str]) -> None:
        """Permit these networks, and no others, from now on."""
        if isinstance(networks, str):
            raise BadConfig(f'egress.allow must be a list of networks, such as ["{networks[:50]}"]')
        self._allow = tuple(_parse_network(entry) for entry in networks)

    def forbids(self, ip_text: str, *, trusted: bool = False) -> str | None:
        """Why connections to this address are forbidden; None if they are allowed.

        `trusted`: the target comes from the config file or the application's code.
        """
        try:
            address = ip_address(ip_text.partition("%")[0])
        except ValueError:
            return f"{short_repr(ip_text)} is not an IP address"
        found = _find(address)
        if found is None or self._lists(address, found.exact) or (trusted and not found.exact):
            return None
        return f"{address} is {found.reason}"

    def vet(
        self,
        addresses: Sequence[str],
        *,
        host: str = "",
        port: int = 443,
        plain: bool = False,
        trusted: bool = False,
    ) -> None:
        """Raise `TargetRefused` unless every address is allowed. `plain` is http:// instead of https://."""
        demand = "" if trusted else _demand(port, plain)
        reasons, missing = [], []
        for text in addresses:
            if port in self._loopback_ports and is_loopback(text):
                continue
            reason = self.forbids(text, trusted=trusted)
            if reason is None and demand and not self._lists(ip_address(text.partition("%")[0]), exact=False):
                reason = demand
            if reason is not None:
                reasons.append(reason)
                missing.append(text)
        if missing or not addresses:
            what = host or (addresses[0] if addresses else "a host without addresses")
            raise TargetRefused(refusal_text(what, reasons, missing, self._allow, port, self._remedy))

    def check_url(self, url: str, *, trusted: bool = False) -> None:
        """Check what needs no DNS. A host name is only checked completely with its addresses: see `check_target`."""
        self.check_unresolved(read_target(url), trusted=trusted)

    def check_unresolved(self, target: TargetHost, *, trusted: bool = False) -> None:
        if target.address is not None:
            self._vet_target(target, [target.address], trusted)
        elif target.is_localhost:
            self._vet_target(target, ["127.0.0.1"], trusted)
        elif not trusted and (demand := _demand(target.port, target.plain)):
            raise TargetRefused(
                f"{target.host} may not be a target: {demand}. Use https:// on a web port, or write the address in "
                f'place of the name and add to {self._remedy.file}:  egress: {{allow: ["<address>/32"]}}'
            )

    async def check_target(self, url: str, *, trusted: bool = False) -> None:
        """Check a URL completely, with DNS. A name that does not resolve now is accepted: sending checks it again."""
        await self.check_resolved(read_target(url), trusted=trusted)

    async def check_resolved(self, target: TargetHost, *, trusted: bool = False) -> None:
        """Check a target that is not connected to here: a new contract's, or one that a proxy connects to."""
        if target.address is not None or target.is_localhost:
            return self.check_unresolved(target, trusted=trusted)
        try:
            await self.resolve(target.host, target.port, plain=target.plain, trusted=trusted)
        except OSError:
            self.check_unresolved(target, trusted=trusted)

    async def resolve(self, host: str, port: int, *, plain: bool = False, trusted: bool = False) -> list[str]:
        """The allowed addresses of a name, resolved once, to connect to as they are. OSError if there are none."""
        addresses = await lookup(host, port)
        self.vet(addresses, host=host, port=port, plain=plain, trusted=trusted)
        return addresses[:ANSWERS_MAX]

    def _vet_target(self, target: TargetHost, addresses: list[str], trusted: bool) -> None:
        self.vet(addresses, host=target.host, port=target.port, plain=target.plain, trusted=trusted)

    def _lists(self, address: IP, exact: bool) -> bool:
        forms = _forms(address)
        return any(
            form in network
            for network in self._allow
            if not exact or network.prefixlen == network.max_prefixlen
            for form in forms
        )


async def getaddrinfo(host: str, port: int, **options: int) -> Sequence[AddressInfo]:
    """Call the system's resolver, which blocks, in a thread."""
    return await in_thread("dns", partial(socket.getaddrinfo, host, port, **options))


async def lookup(host: str, port: int) -> list[str]:
    """The addresses of a name, not checked by the guard."""
    try:
        async with asyncio.timeout(DNS_S):  # `wait_for` of Python 3.11 can lose a cancellation
            answers = await getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    except TimeoutError:
        raise OSError(errno.ETIMEDOUT, f"DNS gave no answer within {DNS_S:g} s") from None
    except UnicodeError:
        raise OSError(socket.EAI_NONAME, "the name is not one DNS can hold") from None
    return list(dict.fromkeys(str(answer[4][0]) for answer in answers))


def read_target(url: str) -> TargetHost:
    """Parse a URL's host as the most lenient resolver would, so that every spelling of an address is recognized.

    >>> read_target("http://0x7f.1:8080/").address
    '127.0.0.1'
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise TargetRefused(f"the URL cannot be read: {error}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise TargetRefused("a webhook's URL begins with https:// and names a host")
    if "[" in parts.netloc or "]" in parts.netloc:
        _check_brackets(parts.netloc)
    plain = parts.scheme == "http"
    port = port if port is not None else (80 if plain else 443)
    # Some resolvers read full-width and circled digits, the ideographic full stop and %31 as plain characters.
    host = unicodedata.normalize("NFKC", unquote(parts.hostname)).replace("。", ".").lower()
    address = _literal(host)
    if address is not None:
        return TargetHost(str(address), port, plain, str(address))
    if not _NAME.fullmatch(host) or len(host) > 254:
        raise TargetRefused(f"{short_repr(host)} is not a host name; write international names in their xn-- form")
    if re.fullmatch(r"[0-9]+|0x[0-9a-f]*", host.rstrip(".").rpartition(".")[2]):
        raise TargetRefused(f"{short_repr(host)} ends like an IPv4 address but is not one")
    return TargetHost(host, port, plain, None)


def _check_brackets(netloc: str) -> None:
    """Brackets hold an IPv6 address and nothing else: `[v1.x]` is a form for future versions, not a name."""
    authority = netloc.rpartition("@")[2]
    found = _BRACKETED.fullmatch(authority)
    try:
        if found is not None:
            IPv6Address(unquote(found[1]).partition("%")[0])
            return
    except ValueError:
        pass
    raise TargetRefused(f"{short_repr(authority)} is not a host: brackets hold an IPv6 address and nothing else")


def _literal(host: str) -> IP | None:
    bare = host.strip("[]").partition("%")[0]
    try:
        return IPv6Address(bare) if ":" in bare else _lenient_v4(bare.removesuffix("."))
    except ValueError:
        return None


def _lenient_v4(text: str) -> IPv4Address:
    """An IPv4 address as `inet_aton` parses it: one to four decimal, octal or hex numbers; the last fills the rest."""
    numbers = [_number(part) for part in text.split(".")]
    *heads, last = numbers
    if len(heads) > 3 or any(head > 255 for head in heads) or last >= 256 ** (4 - len(heads)):
        raise ValueError(text)
    return IPv4Address(sum(head << (24 - 8 * at) for at, head in enumerate(heads)) + last)


def _number(text: str) -> int:
    if not text.isascii() or not text.isalnum() or len(text) > 40:
        raise ValueError(text)
    if text.startswith("0x"):
        return int(text[2:] or "0", 16)
    return int(text, 8 if text.startswith("0") else 10)


def _find(address: IP) -> BlockedRange | None:
    """The line of the table that forbids an address; None for the public internet."""
    inner = _inner(address)
    if isinstance(address, IPv6Address) and inner is not None:
        hidden = _find(inner)
        # Mapped and NAT64 addresses are checked by the address inside; other embeddings are refused as such. Trust must
        # not permit an embedded address that it does not permit directly.
        if unwrapped(address) == inner or (hidden is not None and hidden.exact):
            return hidden
    for line in TABLE:
        if address in line.network:
            return line
    if isinstance(address, IPv6Address):
        if _is_isatap(address):
            return BlockedRange(_GLOBAL_V6, _ISATAP, False)
        if address not in _GLOBAL_V6:
            return BlockedRange(_GLOBAL_V6, "outside the public IPv6 range", False)
    return None


def _inner(address: IP) -> IPv4Address | None:
    """The IPv4 address that is embedded in an IPv6 one, for every way of embedding."""
    if isinstance(address, IPv4Address):
        return None
    number = int(address)
    if address in _6TO4:
        return IPv4Address(number >> 80 & 0xFFFFFFFF)
    if address in MAPPED or address in NAT64 or any(address in net for net in _IPV4_LAST) or _is_isatap(address):
        # ::1 and :: embed nothing.
        return IPv4Address(number & 0xFFFFFFFF) if number > 1 else None
    return None


def _is_isatap(address: IPv6Address) -> bool:
    return int(address) >> 32 & 0xFFFFFFFF in (0x00005EFE, 0x02005EFE)


def _forms(address: IP) -> tuple[IP, IP]:
    """The addresses under which the allow-list may name this one."""
    # `localhost` usually resolves to both loopback addresses, so listing the IPv4 one includes ::1.
    return address, IPv4Address("127.0.0.1") if address == IPv6Address("::1") else unwrapped(address)


def _demand(port: int, plain: bool) -> str:
    """Why a target must be on the allow-list although its address is public; empty if it need not be."""
    if plain:
        return "http:// carries events unencrypted"
    if port in CLOSED_PORTS:
        return f"port {port} is not a web server's"
    return ""


def _parse_network(entry: object) -> IPv4Network | IPv6Network:
    try:
        if isinstance(entry, str):
            return ip_network(entry)
    except ValueError as error:
        raise BadConfig(f'egress.allow: {error}; write a network such as "127.0.0.0/8" or one address') from None
    raise BadConfig(f'egress.allow: {short_repr(entry)} is not a network such as "127.0.0.0/8" or one address')
