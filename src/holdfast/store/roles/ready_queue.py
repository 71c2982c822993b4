"""ReadyQueue: the deliveries that can be claimed, their due times and their leases.

The queue has one row for each unordered pending delivery and one for the head of each lane. It has no row for a
delivery that waits behind a head, was handed over, or whose lane is paused. A queue that is paused or parked keeps its
rows; `queues` then returns it without a due time.

Each verb runs inside a transaction of the store and takes that transaction as its first argument. The delivery rows
remain the record of what happened; the ready queue only says what can be claimed, and by which process it is held.

A store may fuse a verb with routing or settling to save statements or round trips. The test suite checks behavior, not
the order of calls. The fused statements are methods of the store's own class:

- PostgreSQL: `put_routed` and `put_plain` insert deliveries together with their rows, `lease` leases and reads in one
  call, and `settle_delivered` ends leases, deliveries and lanes and writes the receipt.
- SQLite: `end_batch` ends all leases of one token.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import NamedTuple, Protocol, TypeAlias, TypeVar

from holdfast.store.roles.lease import Lease

Transaction = TypeVar("Transaction", contravariant=True)
Leased = TypeVar("Leased", covariant=True)

T = TypeVar("T")
Result: TypeAlias = T | Awaitable[T]
"""SQLite's transaction runs in a thread and returns the value; PostgreSQL's returns an awaitable of it."""


class ReadyRow(NamedTuple):
    """A delivery that can be claimed once it is due."""

    delivery: int
    queue: int
    due_at_ms: int


class LeaseOrder(NamedTuple):
    """The terms of a claim. `lease_now_ms` is the time leases are counted from; None: the database's clock."""

    owner: int
    token: int
    lease_now_ms: int | None
    due_ms: int


class LeaseShare(NamedTuple):
    """How many rows of one queue to lease, and for how long."""

    queue: int
    most: int
    lease_ms: int


class ReadyCounts(NamedTuple):
    """Rows in the queue, how many of them are leased, and when the next unleased one is due."""

    rows: int
    leased: int
    next_due_ms: int | None


class QueueDepth(NamedTuple):
    """Rows of one queue, how many of them are leased, and the oldest delivery among them, if there is one."""

    rows: int
    leased: int
    oldest: int | None


class ReadyQueue(Protocol[Transaction, Leased]):
    """The verbs of a ready queue. `Leased` is what `lease` returns: a count on SQLite, the rows on PostgreSQL."""

    def put(self, transaction: Transaction, rows: Sequence[ReadyRow]) -> Result[None]:
        """Add deliveries that have no row yet."""

    def put_heads(self, transaction: Transaction, lanes: Sequence[int], due_at_ms: int) -> Result[None]:
        """Add the first pending delivery of each lane, unless it has a row or was handed over."""

    def put_handed(self, transaction: Transaction, now_ms: int, limit: int) -> Result[int]:
        """Add deliveries that were handed over and whose confirmation is overdue. Returns how many."""

    def lease(self, transaction: Transaction, order: LeaseOrder, shares: Sequence[LeaseShare], limit: int) -> Leased:
        """Lease due rows of each queue, oldest first, at most `limit` in all, and count a start for each.

        Rows that are leased, or suspect, are left out.
        """

    def suspect_queues(self, transaction: Transaction, now_ms: int) -> Result[set[int]]:
        """Queues with a due suspect: a delivery that was started twice without an end, so it may crash its process."""

    def lease_suspect(self, transaction: Transaction, order: LeaseOrder, queue: int, lease_ms: int) -> Result[int]:
        """Lease one due suspect of a queue, the one with the fewest starts. Returns 0 where there is none."""

    def renew(
        self, transaction: Transaction, leases: Sequence[Lease], now_ms: int | None, lease_ms: int
    ) -> Result[set[int]]:
        """Extend leases. Returns the ids of deliveries whose lease was lost."""

    def end(self, transaction: Transaction, leases: Sequence[Lease]) -> Result[set[Lease]]:
        """Remove the rows of leases that are still held, and return those leases.

        This is the fence of every settlement: a process whose lease was taken over finds no row with its token.
        """

    def retry_later(
        self, transaction: Transaction, leases: Sequence[Lease], due_at_ms: Sequence[int | None]
    ) -> Result[set[Lease]]:
        """End leases that are still held, each row with a new due time and no starts. Returns those leases."""

    def release(self, transaction: Transaction, leases: Sequence[Lease]) -> Result[None]:
        """End leases of deliveries that were not started; their start is not counted."""

    def uncount_starts(self, transaction: Transaction, leases: Sequence[Lease]) -> Result[None]:
        """Take back the counted start of leases that stay held."""

    def remove(self, transaction: Transaction, deliveries: Sequence[int]) -> Result[None]:
        """Remove rows, leased or not: their deliveries were ended by other means than a settlement."""

    def remove_lane(self, transaction: Transaction, lane: int) -> Result[None]:
        """Remove the unleased rows of a lane that is being paused."""

    def remove_paused(self, transaction: Transaction) -> Result[None]:
        """Remove heads of paused lanes that came back: they failed, were released, reclaimed, or handed over."""

    def make_due(self, transaction: Transaction, deliveries: Sequence[int], now_ms: int) -> Result[set[int]]:
        """Make unleased rows due now. Returns the ids that were due later."""

    def reclaim(
        self, transaction: Transaction, now_ms: int | None, gone: Sequence[int], holding: Sequence[int]
    ) -> Result[int]:
        """End leases that have expired or whose owner is in `gone`, with their starts counted. Returns how many.

        `holding`: deliveries this process still works on; their leases do not expire.
        """

    def counts(self, transaction: Transaction) -> Result[ReadyCounts]:
        """How many rows there are."""

    def count_behind(self, transaction: Transaction) -> Result[int]:
        """How many pending deliveries have no row: behind a head, in a paused lane, or handed over."""

    def pending_by_queue(self, transaction: Transaction, limit: int) -> Result[dict[str, int]]:
        """How many deliveries are pending by contract or direct address, with a row or not; the most first."""

    def count_address(self, transaction: Transaction, address: str) -> Result[tuple[int, int]]:
        """How many rows of one address are unleased, and how many are leased."""

    def depth(self, transaction: Transaction, queue: int) -> Result[QueueDepth]:
        """How many rows one queue has."""
