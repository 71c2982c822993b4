"""Why a target is refused, and what an operator does to permit it."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import NamedTuple, TypeAlias

IP: TypeAlias = IPv4Address | IPv6Address

MAPPED, NAT64 = IPv6Network("::ffff:0:0/96"), IPv6Network("64:ff9b::/96")


class Remedy(NamedTuple):
    """Where an operator permits a refused target: the configuration file, and when a change of it applies."""

    file: str = "holdfast.yml"
    applies: str = "then restart"


RESTART = Remedy()


def unwrapped(address: IP) -> IP:
    """The address that a connection really reaches: for mapped and NAT64 addresses the IPv4 address inside."""
    if isinstance(address, IPv6Address) and (address in MAPPED or address in NAT64):
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address


def is_loopback(text: str) -> bool:
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (mapped or address).is_loopback


def refusal_text(
    what: str,
    reasons: Sequence[str],
    missing: Sequence[str],
    allowed: Sequence[IPv4Network | IPv6Network],
    port: int,
    remedy: Remedy,
) -> str:
    """Why a target is refused, and the line that would permit it: with the networks that are allowed already."""
    why = "; ".join(dict.fromkeys(reasons[:3])) or "it has no address"
    if not missing:
        return f"{what} may not be a target: {why}"
    networks = dict.fromkeys([*map(str, allowed), *map(_network_for, missing[:3])])
    line = "egress: {allow: [" + ", ".join(f'"{network}"' for network in networks) + "]}"
    hint = f"To allow it, add to {remedy.file}:  {line}  ({remedy.applies})"
    if all(map(is_loopback, missing)):
        hint += f". For this port alone, start the daemon with: holdfast up --allow-loopback {port}"
    return f"{what} may not be a target: {why}. {hint}"


def _network_for(text: str) -> str:
    try:
        address = unwrapped(ip_address(text.partition("%")[0]))
    except ValueError:
        return text
    if address in IPv4Network("127.0.0.0/8"):
        return "127.0.0.0/8"
    return f"{address}/{address.max_prefixlen}"
