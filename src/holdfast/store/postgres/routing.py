"""Routing on PostgreSQL: one router at a time over the schema. A batch is one transaction, from look to commit."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import NamedTuple

from holdfast.domain.event import Event
from holdfast.domain.lane import LANE_MAX, may_coalesce
from holdfast.ports import Clock
from holdfast.store.postgres.bursts import thin_out
from holdfast.store.postgres.lanes import join_lanes
from holdfast.store.postgres.pool import Pool, begin, translated, undo
from holdfast.store.postgres.pooled_connection import PooledConnection
from holdfast.store.postgres.ready_queue import NewDeliveries, PlainBatch, PostgresReadyQueue
from holdfast.store.postgres.statements import sql
from holdfast.store.roles.owners import Owner
from holdfast.store.roles.routing import Plan, RouteTarget


class PostgresRouting:
    def __init__(self, pool: Pool, ready: PostgresReadyQueue, clock: Clock, changed: Callable[[str], None]) -> None:
        self._pool, self._ready, self._clock, self._changed = pool, ready, clock, changed
        self._at_end = False

    @asynccontextmanager
    async def batch(self, limit: int) -> AsyncIterator[PostgresRoutingBatch]:
        """Empty while another process routes: that process will route all events that are stored now."""
        with translated():
            async with self._pool.connection() as session:
                batch = PostgresRoutingBatch(session, self._ready, self._clock, self._changed)
                try:
                    # After a batch that was not full there is rarely more: one read is cheaper than a transaction.
                    if not self._at_end or await session.value(sql.unrouted_first) is not None:
                        await batch.take(limit)
                    self._at_end = 0 < len(batch.events) < limit
                    yield batch
                finally:
                    await batch.end()

    async def backlog(self) -> int:
        return int(await self._pool.value(sql.unrouted_count))


class PostgresRoutingBatch:
    """Events, under the router's lock, which ends with the transaction."""

    def __init__(
        self, session: PooledConnection, ready: PostgresReadyQueue, clock: Clock, changed: Callable[[str], None]
    ) -> None:
        self._session, self._ready, self._clock, self._changed = session, ready, clock, changed
        self._begun = False
        self.version = 0
        self.events: Sequence[Event] = []
        self.due_at_ms: Mapping[int, int] = {}

    async def take(self, limit: int) -> None:
        await begin(self._session, durable=False)
        self._begun = True
        rows = await self._session.rows(sql.unrouted_take, limit)
        if rows:
            self.version = int(rows[0][0])
        if rows and rows[0][1] is not None:
            self.events = [Event(*row[1:12]) for row in rows]
            self.due_at_ms = {row[1]: int(row[12]) for row in rows if row[12]}

    async def commit(self, plans: Sequence[Plan], owner: Owner | None = None) -> bool:
        """Insert deliveries and remove unrouted rows, in one transaction."""
        if not self._begun:
            return False
        with translated():
            now_ms = self._clock.now_ms()
            firsts = {event.n for event in self.events if event.seq == 1 and event.stream != event.id}
            values = (plans, firsts, now_ms)
            if _is_plain(plans):
                routed = await _route_plain(self._session, self._ready, self.version, *values)
            else:
                routed = await _route(self._session, self._ready, self.version, owner, *values)
            if routed is None:
                return False
            self._begun = False
            await self._session.raw.execute("COMMIT")
        if routed:
            self._changed("deliveries")
        return True

    async def end(self) -> None:
        if self._begun:
            self._begun = False
            await undo(self._session)


def _is_plain(plans: Sequence[Plan]) -> bool:
    """Whether all targets are existing queues without lanes, and so without bursts."""
    return all(target.queue is not None and target.lane is None for plan in plans for target in plan.targets)


async def _route_plain(
    session: PooledConnection,
    ready: PostgresReadyQueue,
    version: int,
    plans: Sequence[Plan],
    firsts: set[int],
    now_ms: int,
) -> int | None:
    """The number of new deliveries; None where the contracts changed. `firsts` began their streams."""
    duties = {(plan.n, target.queue): max(now_ms, plan.due_at_ms) for plan in plans for target in plan.targets}
    events, queues, due = [n for n, _ in duties], [queue for _, queue in duties], list(duties.values())
    unmatched = [plan.n for plan in plans if not plan.targets]
    routed = [plan.n for plan in plans]
    batch = PlainBatch(version, routed, unmatched, events, queues, due, now_ms, list(firsts))
    return await ready.put_plain(session, batch)


async def _route(
    session: PooledConnection,
    ready: PostgresReadyQueue,
    version: int,
    owner: Owner | None,
    plans: Sequence[Plan],
    firsts: set[int],
    now_ms: int,
) -> int | None:
    if int(await session.value(sql.contract_version_held)) != version:
        return None
    return await route(session, ready, owner, plans, firsts, now_ms)


class Duty(NamedTuple):
    """A delivery to insert: an event for a queue, perhaps in a lane."""

    event: int
    queue: int
    lane: str | None
    due_at_ms: int
    burst: str | None
    thins: bool


async def route(
    session: PooledConnection,
    ready: PostgresReadyQueue,
    owner: Owner | None,
    plans: Sequence[Plan],
    firsts: set[int],
    now_ms: int,
) -> int:
    """The number of new deliveries. The counts are updated last, since retention waits for the lock on their row."""
    waiting = {row[0] for row in await session.rows(sql.unrouted_done, [plan.n for plan in plans])}
    plans = [plan for plan in plans if plan.n in waiting]
    unmatched = [plan.n for plan in plans if not plan.targets]
    added = await session.run(sql.unmatched_add, unmatched) if unmatched else 0
    made = await _deliver(session, ready, owner, [plan for plan in plans if plan.targets], now_ms)
    await session.run(sql.counts_add, len(plans), added, len(firsts & waiting))
    return made


async def _deliver(
    session: PooledConnection, ready: PostgresReadyQueue, owner: Owner | None, matched: Sequence[Plan], now_ms: int
) -> int:
    if not matched:
        return 0
    direct = await _direct_queues(session, matched, now_ms)
    known = {tuple(row) for row in await session.rows(sql.delivery_known, [plan.n for plan in matched])}
    duties: list[Duty] = []
    for plan in matched:
        for target in plan.targets:
            queue = target.queue if target.queue is not None else direct[target.address]
            if (plan.n, queue) not in known:
                known.add((plan.n, queue))
                due_at_ms, thins = max(now_ms, plan.due_at_ms), may_coalesce(target.address)
                duties.append(Duty(plan.n, queue, target.lane, due_at_ms, target.burst, thins))
    lanes = await _insert(session, ready, duties, now_ms)
    bursts = [duty.event for duty in duties if duty.burst is not None]
    if owner is not None and (bursts or any(count > LANE_MAX for count in lanes.values())):
        await thin_out(session, ready, owner, bursts, lanes, now_ms)
    return len(duties)


async def _insert(
    session: PooledConnection, ready: PostgresReadyQueue, duties: Sequence[Duty], now_ms: int
) -> dict[int, int]:
    """Insert deliveries. Returns how many are open in each lane that was joined and may be thinned out."""
    seats = iter(await join_lanes(session, [duty.lane for duty in duties if duty.lane is not None]))
    lanes: list[int | None] = []
    places: list[int | None] = []
    due: list[int | None] = []
    waiting: dict[int, int] = {}
    for duty in duties:
        seat = None if duty.lane is None else next(seats)
        lanes.append(None if seat is None else seat.lane)
        places.append(None if seat is None else seat.pos)
        due.append(duty.due_at_ms if seat is None or seat.head else None)
        if seat is not None and duty.thins:
            waiting[seat.lane] = seat.waiting
    events, queues = [duty.event for duty in duties], [duty.queue for duty in duties]
    bursts = [duty.burst for duty in duties]
    await ready.put_routed(session, NewDeliveries(events, queues, lanes, places, due, now_ms, bursts))
    return waiting


async def _direct_queues(session: PooledConnection, plans: Sequence[Plan], now_ms: int) -> dict[str, int]:
    wanted: dict[str, RouteTarget] = {
        target.address: target for plan in plans for target in plan.targets if target.queue is None
    }
    if not wanted:
        return {}
    kinds = [target.kind for target in wanted.values()]
    return dict(await session.rows(sql.queue_direct, list(wanted), kinds, now_ms))
