"""Routing on SQLite: only the keeper routes, so a batch is read outside the writer and committed if still current."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import NamedTuple

from holdfast.domain.delivery import Claim
from holdfast.domain.event import Event
from holdfast.domain.lane import LANE_MAX, may_coalesce
from holdfast.domain.receipt import some_of
from holdfast.ports import Clock
from holdfast.store.roles.owners import Actor, Owner
from holdfast.store.roles.ready_queue import ReadyRow
from holdfast.store.roles.routing import LeaseOffer, Plan, RouteTarget
from holdfast.store.sqlite.bursts import Joined, coalesce_and_evict
from holdfast.store.sqlite.connection import Connection, Row
from holdfast.store.sqlite.inserts import insert
from holdfast.store.sqlite.lanes import join_lanes
from holdfast.store.sqlite.reader import Reader
from holdfast.store.sqlite.ready_queue import SqliteReadyQueue
from holdfast.store.sqlite.receipts import write_action
from holdfast.store.sqlite.statements import sql
from holdfast.store.sqlite.writer import HEAVY_ROWS, Writer

_ALL = 1 << 62  # a place after every event: each may have been routed before


class SqliteRouting:
    misses_wakeups = False

    def __init__(
        self, writer: Writer, reader: Reader, ready: SqliteReadyQueue, clock: Clock, changed: Callable[[str], None]
    ) -> None:
        self._writer, self._reader, self._clock, self._changed = writer, reader, clock, changed
        self._ready = ready

    @asynccontextmanager
    async def batch(self, limit: int, payloads: bool = False) -> AsyncIterator[SqliteRoutingBatch]:
        def look(connection: Connection) -> tuple[int, int, list[Row]]:
            place = connection.rows(sql.router_place)[0][0]
            rows = connection.rows(sql.again_take, (limit,))
            rows += connection.rows(sql.unrouted_take, (place, limit - len(rows)))
            return connection.rows(sql.contract_version)[0][0], place, rows

        version, place, rows = await self._reader.run(look)
        events = [Event(*row[:11]) for row in rows]
        due_at_ms = {event.n: int(row[11]) for event, row in zip(events, rows, strict=True) if row[11]}
        yield SqliteRoutingBatch(self, int(version), place, events, due_at_ms)

    async def backlog(self) -> int:
        return int((await self._reader.run(lambda c: c.rows(sql.unrouted_count)))[0][0])

    async def deliver(self, plans: Sequence[Plan], *, by: Actor | None = None) -> int:
        now_ms = self._clock.now_ms()

        def work(connection: Connection) -> int:
            routed = [plan for plan in plans if connection.rows(sql.event_routed, (plan.n,))]
            unmatched = sum(connection.run(sql.prune_unmatched, (plan.n,)) for plan in routed)
            connection.run(sql.counts_add, (0, -unmatched))
            _deliver(connection, self._ready, None, _duties(connection, routed, _ALL, now_ms), now_ms)
            if routed:
                write_action(connection, by, now_ms, "deliver", events=some_of(str(plan.n) for plan in routed))
            return len(routed)

        found = await self._writer.run(work)
        self._changed("deliveries")
        return found

    async def commit(self, owner: Owner | None, version: int, place: int, plans: Sequence[Plan]) -> Counter[str] | None:
        """How many deliveries were dropped, by reason; None: the contracts changed."""
        now_ms = self._clock.now_ms()
        done = await self._writer.run(
            lambda connection: route(connection, self._ready, owner, version, place, plans, now_ms),
            durable=False,
            heavy=sum(1 + len(plan.targets) for plan in plans) > HEAVY_ROWS,
        )
        if done is not None and any(plan.targets for plan in plans):
            self._changed("deliveries")
        return done


class SqliteRoutingBatch:
    can_lease = False
    claims: Sequence[Claim] = ()
    dropped: Mapping[str, int] = {}

    def __init__(
        self, routing: SqliteRouting, version: int, place: int, events: Sequence[Event], due_at_ms: Mapping[int, int]
    ) -> None:
        self._routing, self._place = routing, place
        self.version, self.events, self.due_at_ms = version, events, due_at_ms

    async def commit(self, plans: Sequence[Plan], owner: Owner | None = None, offer: LeaseOffer | None = None) -> bool:
        if [plan.n for plan in plans] != [event.n for event in self.events[: len(plans)]]:
            raise ValueError(
                "a batch is routed from its beginning, in its order: the place must not pass over an event"
            )
        dropped = await self._routing.commit(owner, self.version, self._place, plans)
        if dropped is None:
            return False
        self.dropped = dropped
        return True


def route(
    connection: Connection,
    ready: SqliteReadyQueue,
    owner: Owner | None,
    version: int,
    place: int,
    plans: Sequence[Plan],
    now_ms: int,
) -> Counter[str] | None:
    """Insert deliveries and advance the router's place. `place` is its value when the batch was read.

    Returns how many deliveries were dropped, by reason; None if the contracts changed.
    """
    if connection.rows(sql.contract_version)[0][0] != version:
        return None
    last = plans[-1].n if plans else place
    if last > place and not connection.run(sql.router_advance, (place, last)):
        return None
    fresh = [plan for plan in plans if plan.n > place or connection.run(sql.again_done, (plan.n,))]
    unmatched = sum(connection.run(sql.unmatched_add, (plan.n,)) for plan in fresh if not plan.targets)
    if fresh:
        connection.run(sql.counts_add, (len(fresh), unmatched))
    return _deliver(connection, ready, owner, _duties(connection, fresh, place, now_ms), now_ms)


class Duty(NamedTuple):
    """A delivery to insert: an event for a queue, perhaps in a lane."""

    event: int
    queue: int
    target: RouteTarget
    due_at_ms: int


def _duties(connection: Connection, plans: Sequence[Plan], place: int, now_ms: int) -> list[Duty]:
    """The deliveries of the plans: each event once for each queue, and not again if it was routed to it before."""
    direct: dict[str, int] = {}
    duties: dict[tuple[int, int], Duty] = {}
    for plan in plans:
        for target in plan.targets:
            queue = target.queue if target.queue is not None else direct.get(target.address)
            if queue is None:
                found = connection.rows(sql.queue_direct, (target.address, target.kind, now_ms))
                queue = direct[target.address] = int(found[0][0])
            if plan.n > place or not connection.rows(sql.delivery_known, (plan.n, queue)):
                duties.setdefault((plan.n, queue), Duty(plan.n, queue, target, max(now_ms, plan.due_at_ms)))
    return list(duties.values())


def _deliver(
    connection: Connection, ready: SqliteReadyQueue, owner: Owner | None, duties: Sequence[Duty], now_ms: int
) -> Counter[str]:
    positions = iter(join_lanes(connection, [duty.target.lane for duty in duties if duty.target.lane is not None]))
    deliveries: list[tuple[object, ...]] = []
    claimable: list[ReadyRow] = []
    bursts: list[Joined] = []
    for id, duty in enumerate(duties, connection.rows(sql.delivery_last)[0][0] + 1):
        target = duty.target
        position = None if target.lane is None else next(positions)
        lane, pos = (None, None) if position is None else (position.lane, position.pos)
        deliveries.append((id, duty.event, duty.queue, lane, pos, now_ms, target.burst))
        if position is None or position.is_head:
            claimable.append(ReadyRow(id, duty.queue, duty.due_at_ms))
        if position is not None and (
            target.burst is not None or (position.waiting > LANE_MAX and may_coalesce(target.address))
        ):
            bursts.append(Joined(id, position.lane, position.pos, position.waiting, target.burst))
    insert(connection, sql.delivery_add, deliveries)
    ready.put(connection, claimable)
    dropped: Counter[str] = Counter()
    if owner is not None:
        for joined in bursts:
            dropped += coalesce_and_evict(connection, ready, owner, joined, now_ms)
    return dropped
