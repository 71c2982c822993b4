"""Gates: rate limits and circuit breakers of addresses, and hourly limits, shared by every process on the store."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from holdfast.store.roles.owners import Owner


class Gate(NamedTuple):
    """An address whose breaker is open: since when it fails, until when no request is sent, how often it opened."""

    address: str
    failing_since_ms: int
    open_until_ms: int
    trips: int


class Reservation(NamedTuple):
    """When the next request to an address may begin, and whether that moment is reserved for the caller."""

    wait_us: int
    reserved: bool


class Gates(Protocol):
    """Rate limits and circuit breakers of addresses, and hourly limits."""

    async def reserve(self, address: str, interval_us: int, ahead_us: int) -> Reservation:
        """The next free moment for one request to this address; it is reserved if it comes within `ahead_us`.

        A reservation of a process that ends is not returned, so nothing is reserved far ahead.
        """

    async def open(self, after: str = "") -> list[Gate]:
        """Addresses whose breaker is open, in order, after this one: at most `PAGE_MAX` of them."""

    async def trip(self, address: str, cooldown_ms: int) -> Gate:
        """Open a breaker, or keep it open for longer."""

    async def probe(self, owner: Owner, address: str, lease_ms: int) -> bool:
        """Whether this owner may try once: the cooldown is over, and no other living owner is trying."""

    async def close(self, address: str) -> bool:
        """Close a breaker. True where it was open."""

    async def take(self, name: str, limit: int) -> int:
        """Count one more of this name, if fewer than `limit` were counted in the last hour.

        Returns 0, or the milliseconds until it is worth asking again; then nothing was counted. Whole minutes are
        counted, so that a name needs few rows: one that was counted is forgotten up to a minute late, never early.
        """
