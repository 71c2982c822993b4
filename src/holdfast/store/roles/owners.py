"""Owners: the processes that work on a store."""

from __future__ import annotations

from typing import NamedTuple, Protocol


class Owner(NamedTuple):
    """A working process and the receipt chain it writes on. `unclean`: a process before it did not stop in order."""

    id: int
    chain: str
    unclean: bool = False

    def acting(self, name: str) -> Actor:
        """The actor of a change that this process makes on behalf of `name`."""
        return Actor(self.chain, name)


class Actor(NamedTuple):
    """Who makes a change, as its receipt records it: a name, and the chain on which the receipt is written."""

    chain: str
    name: str


class WorkingOwner(NamedTuple):
    """A working process as others see it.

    `seen_ms`: its last sign of life; None if it cannot be known. `alive`: its work is not taken over. `deliveries` and
    `streams`: how many it has leased.
    """

    id: int
    host: str
    pid: int
    chain: str
    started_ms: int
    seen_ms: int | None
    alive: bool
    deliveries: int
    streams: int


class Owners(Protocol):
    """The processes that work on a store. No two living owners share a receipt chain."""

    async def register(self) -> Owner:
        """Register this process. An owner's death is noticed at once, and its leases are freed."""

    async def working(self, limit: int) -> list[WorkingOwner]:
        """The owners that have not ended or still hold leases, oldest first."""

    async def retire(self, owner: Owner) -> None:
        """End an owner in order: its chain can be used by the next one. Harmless when repeated."""
