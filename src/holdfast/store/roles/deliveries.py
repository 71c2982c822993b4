"""Deliveries: claim, renew, settle, release. The engine's side of the queue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from holdfast.domain.delivery import Claim, Settlement
from holdfast.store.roles.owners import Owner

SERVED_MS = 150 * 1000  # a process records about once a minute which handlers it serves
BATCH_MAX = 500


class Served(NamedTuple):
    """The addresses a process can deliver to: whole kinds and single addresses, except those in `blocked`."""

    kinds: frozenset[str]
    addresses: frozenset[str]
    blocked: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class ClaimRequest:
    """How much one process can take. `capacity`: free capacity by queue, else `capacity_default` by address kind."""

    owner: int
    served: Served
    limit: int
    lease_ms: Mapping[str, int]
    capacity: Mapping[int, int]
    capacity_default: Mapping[str, int]
    after_queue: int = 0
    suspects: bool = True


@dataclass(frozen=True, slots=True)
class Claimed:
    """The claims, and when to ask again. `held_back`: more is due, and can be claimed once a running one has ended."""

    claims: list[Claim]
    next_due_ms: int | None
    after_queue: int
    held_back: bool = False


class Deliveries(Protocol):
    """The life of a delivery from claim to end."""

    async def claim(self, request: ClaimRequest) -> Claimed:
        """Lease due deliveries, oldest first, with a fair share for each queue."""

    async def renew(self, claims: Sequence[Claim], lease_ms: int) -> set[int]:
        """Extend leases. Returns the ids of deliveries whose lease was lost."""

    async def settle(self, owner: Owner, settlements: Sequence[Settlement]) -> set[int]:
        """Apply transitions, receipts and effects in one transaction. Returns the ids whose lease was lost."""

    async def release(self, claims: Sequence[Claim]) -> None:
        """Return claims as if they had never been taken: their starts are not counted."""

    async def uncount_starts(self, claims: Sequence[Claim]) -> None:
        """Do not count the starts of these claims, whose leases stay: a stop interrupted them, not a crash."""

    async def reclaim(self, holding: Sequence[int] = ()) -> int:
        """Free the leases of owners that are gone and leases that have ended; returns how many.

        `holding` are deliveries that the calling process still works on: after a suspension, their leases may have
        ended, but no other process took them, so they are not freed.
        """

    async def others_hold_leases(self, owner: Owner) -> bool:
        """Whether other processes may hold leases now, so that their end must be noticed within a second."""

    async def resume_handed(self) -> int:
        """Make handed-over deliveries claimable again once their confirmation is due; returns how many."""

    async def make_head_due(self, lane: str) -> bool:
        """Make the first delivery of a lane due now, whether it waits for its next attempt or for a confirmation.

        Returns whether there was one. A delivery that is being attempted is left alone.
        """

    async def record_served(self, addresses: Sequence[str]) -> None:
        """Record that this process serves these addresses, so that their deliveries are not dead-lettered."""

    async def drop_removed(self, owner: Owner) -> int:
        """Drop pending deliveries of removed contracts, at most `BATCH_MAX`; returns how many."""

    async def dead_letter_unserved(self, owner: Owner, grace_ms: int, since_ms: int) -> int:
        """Dead-letter deliveries that waited `grace_ms` for a handler that no process serves; returns how many.

        Nothing happens before this process has run for the grace time itself (`since_ms`).
        """
