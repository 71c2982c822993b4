"""Claiming on PostgreSQL: what is due and served, fair over the queues, without waiting for other claimers.

The short way is a look at the queues and a call of `holdfast.lease`, each a transaction by itself. Where a lane is held
by name, something is suspect, or a contract's concurrency is shared with other processes, all of it is one transaction
with the steps that those need.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from typing import NamedTuple

from holdfast.store.postgres.pool import Pool
from holdfast.store.postgres.pooled_connection import PooledConnection, Row
from holdfast.store.postgres.statements import sql
from holdfast.store.roles.deliveries import Claimed, ClaimRequest
from holdfast.store.rows import to_claim

QUEUES_MAX = 1000
_NO_END = 1 << 62

LeaseCall = Callable[..., Awaitable[list[Row]]]
"""Carries out `ready_lease`, by itself or in a transaction that is open."""


class Order(NamedTuple):
    """A claim to be made: at what time, by which lease clock (None: the database's), and with which token."""

    request: ClaimRequest
    now_ms: int
    lease_now: int | None
    token: int


class Due(NamedTuple):
    """Queues with work that is due and that we serve, when the next of the others is due, and whether to be careful."""

    queues: list[Row]
    next_ms: int | None
    careful: bool


async def claim(pool: Pool, order: Order) -> Claimed:
    """Repeatable: with the same token, what an earlier try leased is found again."""
    due = await pool.alone(lambda session: _look(session, order))
    if not due.queues:
        return Claimed([], due.next_ms, 0)
    if due.careful:
        return await pool.run(lambda session: _claim_carefully(session, order), durable=False, repeatable=True)
    taking = Taking(partial(pool.rows, sql.ready_lease), order, due.queues)
    await taking.lease_all()
    return taking.claimed(due.next_ms)


async def _claim_carefully(session: PooledConnection, order: Order) -> Claimed:
    await session.run(sql.paused_unready)
    queues, next_ms, _ = await _look(session, order)
    if not queues:
        return Claimed([], next_ms, 0)
    taking = Taking(partial(session.rows, sql.ready_lease), order, queues)
    await taking.share(session)
    if order.request.suspects:
        await taking.suspect(session)
    await taking.lease_all()
    return taking.claimed(next_ms)


class Taking:
    """One claim under way: how much is left of its limit and of each queue's capacity, and who was served last."""

    def __init__(self, lease: LeaseCall, order: Order, queues: Sequence[Row]) -> None:
        request = order.request
        self._lease, self._order, self._queues = lease, order, queues
        self._fence = (request.owner, order.token, order.lease_now)
        self._lease_ms = {row[0]: request.lease_ms[row[3]] for row in queues}
        self._capacity = {row[0]: request.capacity.get(row[0], request.capacity_default[row[3]]) for row in queues}
        self._left, self._last = request.limit, 0
        self._held: Sequence[Row] = []
        self._held_back = False

    async def share(self, session: PooledConnection) -> None:
        """Leave of a contract's concurrency what others have under way. What is leased counts, begun or not."""
        most = {row[0]: row[6] for row in self._queues if row[6] is not None}
        if not most:
            return
        await session.run(sql.queue_hold, list(most))
        leased = dict(await session.rows(sql.queue_leased, list(most)))
        for queue, bound in most.items():
            left = max(0, bound - leased.get(queue, 0))
            self._held_back = self._held_back or left < self._capacity[queue]
            self._capacity[queue] = min(self._capacity[queue], left)
        await self._take([], [])  # an earlier try may have leased all there was capacity for

    async def suspect(self, session: PooledConnection) -> None:
        """One delivery, of any queue, that was begun twice without an end: it may be what kills processes."""
        suspicious = {row[0] for row in await session.rows(sql.suspect_queues, self._order.now_ms)}
        for queue, capacity in self._capacity.items():
            if queue in suspicious and capacity > 0 and self._left > 0:
                values = (*self._fence, self._lease_ms[queue], queue, self._order.now_ms)
                await session.run(sql.suspect_lease, *values)
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
        # Where the limit was not reached, everybody had a turn.
        self._last = order[-1] if self._left > 0 else max(got, key=order.index, default=queues[-1])
        return [queue for queue, asked in zip(queues, wanted, strict=True) if got[queue] >= asked]

    async def _take(self, queues: list[int], wanted: list[int]) -> Counter[int]:
        """How many of each queue the token holds now that it did not hold before."""
        leases = [self._lease_ms[queue] for queue in queues]
        rows = await self._lease(*self._fence, queues, wanted, leases, self._order.now_ms, self._left)
        # Of a queue that an earlier try emptied we know nothing any more: what it took comes back with its lease's end.
        held = [row for row in rows if row[1] in self._capacity]
        got = Counter(row[1] for row in held) - Counter(row[1] for row in self._held)
        self._held = held
        for queue, count in got.items():
            self._capacity[queue] -= count
            self._left -= count
        return got

    def claimed(self, next_ms: int | None) -> Claimed:
        addresses = {row[0]: (row[2], row[1] or None) for row in self._queues}
        claims = [to_claim(row, self._order.token, addresses) for row in self._held]
        return Claimed(claims, next_ms, self._last if len(self._queues) > 1 else 0, self._held_back)


async def _look(session: PooledConnection, order: Order) -> Due:
    request, due, careful = order.request, list[Row](), False
    next_ms: int | None = None
    async for row in _walk(session, request.after_queue):
        id, _, address, kind, due_at, unusual, shared = row
        if kind not in request.served.kinds and address not in request.served.addresses:
            continue
        if due_at is None or request.capacity.get(id, 1) <= 0 or address in request.served.blocked:
            continue
        if due_at <= order.now_ms:
            due.append(row)
            careful = careful or unusual or shared is not None
            if len(due) == QUEUES_MAX:
                break
        elif next_ms is None or due_at < next_ms:
            next_ms = due_at
    return Due(due, next_ms, careful)


async def _walk(session: PooledConnection, after: int) -> AsyncIterator[Row]:
    """Every queue with unleased work once, page by page: those after the one served last, then the others."""
    for first, last in ((after, _NO_END), (0, after)):
        at, more = first, first < last
        while more:
            page = await session.rows(sql.ready_queues, at, QUEUES_MAX)
            for row in page:
                if row[0] <= last:
                    yield row
            more = len(page) == QUEUES_MAX and page[-1][0] < last
            at = page[-1][0] if page else last
