"""Claiming on PostgreSQL: a fair share of the due rows of each served queue, without waiting for other processes.

Normally a claim is two transactions of one statement each: a read of the queues and a call of the function `lease`.
Where a lane is paused by name, a row is suspect, or a contract's concurrency is shared with other processes, all of it
is one transaction with the additional steps that those need.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Sequence
from typing import NamedTuple

from holdfast.store.postgres.pool import Pool
from holdfast.store.postgres.pooled_connection import PooledConnection, Row
from holdfast.store.postgres.ready_queue import PostgresReadyQueue, Rows
from holdfast.store.postgres.statements import sql
from holdfast.store.roles.deliveries import Claimed, ClaimRequest
from holdfast.store.roles.ready_queue import LeaseOrder, LeaseShare
from holdfast.store.rows import to_claim

QUEUES_MAX = 1000
SHARED_MIN = 32
"""Of a queue that several processes share, a claim takes at least so many; see the function `lease`."""
SHARE_PAUSE_MS = 20
"""When to claim again after a share was taken: the others may be busy, or may not serve the address."""
_NO_END = 1 << 62


class DueQueues(NamedTuple):
    """The served queues with due work, when the next of the others is due, and whether the general path is needed."""

    queues: list[Row]
    next_ms: int | None
    general: bool


async def claim(pool: Pool, ready: PostgresReadyQueue, request: ClaimRequest, order: LeaseOrder) -> Claimed:
    """Repeatable: with the same token, rows that an earlier try leased are found again."""
    due = await pool.single(lambda connection: _look(connection, ready, request, order))
    if not due.queues:
        return Claimed([], due.next_ms, 0)
    if due.general:
        return await pool.run(
            lambda connection: _claim_generally(connection, ready, request, order), durable=False, repeatable=True
        )
    batch = ClaimBatch(pool, ready, request, order, due.queues)
    await batch.lease_all()
    return batch.claimed(due.next_ms)


async def _claim_generally(
    connection: PooledConnection, ready: PostgresReadyQueue, request: ClaimRequest, order: LeaseOrder
) -> Claimed:
    await ready.remove_paused(connection)
    queues, next_ms, _ = await _look(connection, ready, request, order)
    if not queues:
        return Claimed([], next_ms, 0)
    batch = ClaimBatch(connection, ready, request, order, queues)
    await batch.share(connection)
    if request.suspects:
        await batch.suspect(connection)
    await batch.lease_all()
    return batch.claimed(next_ms)


class ClaimBatch:
    """One claim in progress: how much is left of its limit and of each queue's capacity, and the last queue served."""

    def __init__(
        self,
        connection: Rows,
        ready: PostgresReadyQueue,
        request: ClaimRequest,
        order: LeaseOrder,
        queues: Sequence[Row],
    ) -> None:
        self._session, self._ready, self._order, self._queues = connection, ready, order, queues
        self._lease_ms = {row[0]: request.lease_ms[row[3]] for row in queues}
        self._capacity = {row[0]: request.capacity.get(row[0], request.capacity_default[row[3]]) for row in queues}
        self._left, self._last = request.limit, 0
        self._held: Sequence[Row] = []
        self._held_back = False
        self._owners = max(row[7] for row in queues)
        self._shared = False

    async def share(self, connection: PooledConnection) -> None:
        """Subtract from a contract's concurrency what all processes have leased, started or not."""
        most = {row[0]: row[6] for row in self._queues if row[6] is not None}
        if not most:
            return
        await connection.run(sql.queue_hold, list(most))
        leased = await self._ready.count_leased(connection, list(most))
        for queue, bound in most.items():
            left = max(0, bound - leased.get(queue, 0))
            self._held_back = self._held_back or left < self._capacity[queue]
            self._capacity[queue] = min(self._capacity[queue], left)
        await self._take([], [])  # an earlier try may have leased all there was capacity for

    async def suspect(self, connection: PooledConnection) -> None:
        """Lease one suspect, of any queue. Only one at a time, since it may be what crashes processes."""
        suspects = await self._ready.suspect_queues(connection, self._order.due_ms)
        for queue, capacity in self._capacity.items():
            if queue in suspects and capacity > 0 and self._left > 0:
                await self._ready.lease_suspect(connection, self._order, queue, self._lease_ms[queue])
                await self._take([], [])
                self._last = queue
                return

    async def lease_all(self) -> None:
        """A fair share for each first, then whatever is left for those that had more."""
        share = max(1, self._left // len(self._queues))
        full = await self._lease_each(list(self._capacity), share)
        await self._lease_each(full, self._left)

    async def _lease_each(self, queues: list[int], most: int) -> list[int]:
        """Lease at most `most` from each queue with capacity, up to the limit. Returns queues that may have more."""
        queues = [queue for queue in queues if self._capacity[queue] > 0]
        if self._left <= 0 or not queues:
            return []
        if most == 1:
            queues = queues[: self._left]
        wanted = [min(most, self._capacity[queue]) for queue in queues]
        got = await self._take(queues, wanted)
        order = list(self._capacity)
        # Where the limit was not reached, every queue had its turn.
        self._last = order[-1] if self._left > 0 else max(got, key=order.index, default=queues[-1])
        return [queue for queue, asked in zip(queues, wanted, strict=True) if got[queue] >= asked]

    async def _take(self, queues: list[int], wanted: list[int]) -> Counter[int]:
        """Lease, and return how many more of each queue the token holds now."""
        shares = [LeaseShare(queue, most, self._lease_ms[queue]) for queue, most in zip(queues, wanted, strict=True)]
        rows = await self._ready.lease(self._session, self._order, shares, self._left, self._owners)
        # A queue that an earlier try emptied is not in this claim: what that try leased is reclaimed when it expires.
        held = [row for row in rows if row[1] in self._capacity]
        got = Counter(row[1] for row in held) - Counter(row[1] for row in self._held)
        self._held = held
        asked = dict(zip(queues, wanted, strict=True))
        self._shared |= self._owners > 1 and any(SHARED_MIN <= got[queue] < most for queue, most in asked.items())
        for queue, count in got.items():
            self._capacity[queue] -= count
            self._left -= count
        return got

    def claimed(self, next_ms: int | None) -> Claimed:
        addresses = {row[0]: (row[2], row[1] or None) for row in self._queues}
        claims = [to_claim(row, self._order.token, addresses) for row in self._held]
        if self._shared:
            soon_ms = self._order.due_ms + SHARE_PAUSE_MS
            next_ms = soon_ms if next_ms is None else min(next_ms, soon_ms)
        return Claimed(claims, next_ms, self._last if len(self._queues) > 1 else 0, self._held_back)


async def _look(
    connection: PooledConnection, ready: PostgresReadyQueue, request: ClaimRequest, order: LeaseOrder
) -> DueQueues:
    due, general = list[Row](), False
    next_ms: int | None = None
    async for row in _walk(connection, ready, request.after_queue):
        id, _, address, kind, due_at, unusual, shared, _ = row
        if kind not in request.served.kinds and address not in request.served.addresses:
            continue
        if due_at is None or request.capacity.get(id, 1) <= 0 or address in request.served.blocked:
            continue
        if due_at <= order.due_ms:
            due.append(row)
            general = general or unusual or shared is not None
            if len(due) == QUEUES_MAX:
                break
        elif next_ms is None or due_at < next_ms:
            next_ms = due_at
    return DueQueues(due, next_ms, general)


async def _walk(connection: PooledConnection, ready: PostgresReadyQueue, after: int) -> AsyncIterator[Row]:
    """Every queue with unleased work once, page by page: those after the one served last, then the others."""
    for first, last in ((after, _NO_END), (0, after)):
        at, more = first, first < last
        while more:
            page = await ready.queues(connection, at, QUEUES_MAX)
            for row in page:
                if row[0] <= last:
                    yield row
            more = len(page) == QUEUES_MAX and page[-1][0] < last
            at = page[-1][0] if page else last
