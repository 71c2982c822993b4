"""Owners: the processes that work on a store."""

from __future__ import annotations

from typing import NamedTuple, Protocol


class Owner(NamedTuple):
    """A working process and the receipt chain it writes on. `unclean`: a process before it did not stop in order."""

    id: int
    chain: str
    unclean: bool = False


class Owners(Protocol):
    """The processes that work on a store. No two living owners share a receipt chain."""

    async def enlist(self) -> Owner:
        """Register this process. An owner's death is noticed at once, and its leases are freed."""

    async def retire(self, owner: Owner) -> None:
        """End an owner in order: its chain can be used by the next one. Harmless when repeated."""
