"""Routing on PostgreSQL: one router at a time over the schema. A batch is one transaction, from look to commit."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from typing import NamedTuple

from holdfast.domain.delivery import Claim, Delivery
from holdfast.domain.event import Event
from holdfast.domain.lane import LANE_MAX, may_coalesce
from holdfast.domain.receipt import some_of
from holdfast.ports import Chance, Clock
from holdfast.store.postgres.bursts import coalesce_and_evict
from holdfast.store.postgres.lanes import join_lanes
from holdfast.store.postgres.liveness import CHANNEL
from holdfast.store.postgres.pool import Pool, begin, translated, undo
from holdfast.store.postgres.pooled_connection import PooledConnection
from holdfast.store.postgres.ready_queue import NewDeliveries, PlainBatch, PostgresReadyQueue
from holdfast.store.postgres.receipts import write_action
from holdfast.store.postgres.statements import sql
from holdfast.store.roles.owners import Actor, Owner
from holdfast.store.roles.ready_queue import LeaseOrder
from holdfast.store.roles.routing import LeaseOffer, Plan, RouteTarget

BURST = 50
_COMMIT_AND_NOTIFY = f"SELECT pg_notify('{CHANNEL}', ''); COMMIT"
PAYLOAD_MAX = 16 * 1024  # an event with a larger payload is not leased while it is routed


class RouterPosition:
    """Where the router reads on, so that it does not step over the index entries of all events routed before.

    Events are committed out of order. Most of those that come late are within `BACK` of the newest; for the others all
    waiting events are read from time to time: at most every `EVERY_S`, and less often if that takes long.
    """

    BACK = 1000
    EVERY_S = 0.1
    SHARE = 20  # a read of everything takes at most one part in so many of the time

    def __init__(self) -> None:
        self._last = 0
        self._began_s = self._next_s = 0.0
        self._everything = False

    def start(self) -> int:
        """The position after which to read."""
        self._began_s = time.monotonic()
        self._everything = self._began_s >= self._next_s
        return 0 if self._everything else max(0, self._last - self.BACK)

    def passed(self, events: Sequence[Event]) -> None:
        """Note what the read returned."""
        if events:
            self._last = events[-1].n
        if self._everything:
            now_s = time.monotonic()
            self._next_s = now_s + max(self.EVERY_S, self.SHARE * (now_s - self._began_s))


class PostgresRouting:
    """`uncertain` receives the tokens of leases that may have been taken by a commit whose response was lost."""

    misses_wakeups = True

    def __init__(
        self,
        pool: Pool,
        ready: PostgresReadyQueue,
        clock: Clock,
        lease_clock: Callable[[], int | None],
        chance: Chance,
        changed: Callable[[str], None],
        uncertain: Callable[[int], None],
    ) -> None:
        self._pool, self._ready, self._clock, self._changed = pool, ready, clock, changed
        self._lease_now, self._chance, self._uncertain = lease_clock, chance, uncertain
        self._at_end = False
        self._position = RouterPosition()

    @asynccontextmanager
    async def batch(self, limit: int, payloads: bool = False) -> AsyncIterator[PostgresRoutingBatch]:
        """Empty while another process routes: that process will route all events that are stored now."""
        with translated():
            async with self._pool.connection() as connection:
                batch = PostgresRoutingBatch(connection, self._ready, self._clock, self._changed, self._lease)
                try:
                    # After a batch that was not full there is rarely more: one read is cheaper than a transaction.
                    after = self._position.start()
                    if not self._at_end or await connection.value(sql.unrouted_first, after) is not None:
                        await batch.take(limit, PAYLOAD_MAX if payloads else 0, after)
                        self._position.passed(batch.events)
                    self._at_end = 0 < len(batch.events) < limit
                    yield batch
                finally:
                    await batch.end()

    @contextmanager
    def _lease(self, owner: int, now_ms: int) -> Iterator[LeaseOrder]:
        """The terms of leases that a commit takes. If its outcome is unknown, they are given back later."""
        order = LeaseOrder(owner, self._chance.token(), self._lease_now(), now_ms)
        try:
            yield order
        except BaseException:
            self._uncertain(order.token)
            raise

    async def backlog(self) -> int:
        return int(await self._pool.value(sql.unrouted_count))

    async def deliver(self, plans: Sequence[Plan], *, by: Actor | None = None) -> int:
        now_ms = self._clock.now_ms()

        async def work(connection: PooledConnection) -> int:
            found = {row[0] for row in await connection.rows(sql.event_routed, [plan.n for plan in plans])}
            routed = [plan for plan in plans if plan.n in found]
            unmatched = await connection.run(sql.prune_unmatched, [plan.n for plan in routed])
            await _deliver(connection, self._ready, None, routed, now_ms)
            await connection.run(sql.counts_add, 0, -unmatched, 0)
            if routed:
                await write_action(connection, by, now_ms, "deliver", events=some_of(str(plan.n) for plan in routed))
            return len(routed)

        found = await self._pool.run(work, repeatable=True)
        self._changed("deliveries")
        return found


class PostgresRoutingBatch:
    """Events, under the router's lock, which ends with the transaction."""

    def __init__(
        self,
        connection: PooledConnection,
        ready: PostgresReadyQueue,
        clock: Clock,
        changed: Callable[[str], None],
        lease: Callable[[int, int], AbstractContextManager[LeaseOrder]],
    ) -> None:
        self._session, self._ready, self._clock, self._changed, self._lease = connection, ready, clock, changed, lease
        self._begun = False
        self.can_lease = False
        self.claims: Sequence[Claim] = ()
        self.dropped: Mapping[str, int] = {}
        self.version = 0
        self.events: Sequence[Event] = []
        self.due_at_ms: Mapping[int, int] = {}

    async def take(self, limit: int, payload_max: int, after: int) -> None:
        await begin(self._session, durable=False)
        self._begun = True
        rows = await self._session.rows(sql.unrouted_take, limit, payload_max, after)
        if any(row[2] for row in rows):
            rows = await self._session.rows(sql.unrouted_take, limit, payload_max, 0)
        if rows:
            self.version, self.can_lease = int(rows[0][0]), bool(rows[0][1])
        if rows and rows[0][3] is not None:
            self.events = [Event(*row[3:14]) for row in rows]
            self.due_at_ms = {row[3]: int(row[14]) for row in rows if row[14]}

    async def commit(self, plans: Sequence[Plan], owner: Owner | None = None, offer: LeaseOffer | None = None) -> bool:
        """Insert deliveries and remove unrouted rows, in one transaction."""
        if not self._begun:
            return False
        plain = _is_plain(plans)
        with translated():
            now_ms = self._clock.now_ms()
            firsts = {event.n for event in self.events if event.seq == 1 and event.stream != event.id}
            if plain and offer is not None and self.can_lease:
                with self._lease(offer.owner, now_ms) as order:
                    routed = await self._route_plain(plans, firsts, now_ms, offer, order)
                    await self._end(routed)
            else:
                if plain:
                    routed = await self._route_plain(plans, firsts, now_ms, None, None)
                else:
                    routed = await self._route(plans, owner, firsts, now_ms)
                await self._end(routed)
        if routed is None:
            return False
        if routed > len(self.claims):
            self._changed("deliveries")
        return True

    async def _end(self, routed: int | None) -> None:
        if routed is not None:
            self._begun = False
            # Several processes share a burst; for a few deliveries the notification of their events is enough.
            is_burst = routed >= BURST and not self.can_lease
            await self._session.raw.execute(_COMMIT_AND_NOTIFY if is_burst else "COMMIT")

    async def _route(self, plans: Sequence[Plan], owner: Owner | None, firsts: set[int], now_ms: int) -> int | None:
        """The number of new deliveries; None where the contracts changed."""
        if int(await self._session.value(sql.contract_version_held)) != self.version:
            return None
        made = await route(self._session, self._ready, owner, plans, firsts, now_ms)
        self.dropped = made.dropped
        return made.deliveries

    async def _route_plain(
        self, plans: Sequence[Plan], firsts: set[int], now_ms: int, offer: LeaseOffer | None, order: LeaseOrder | None
    ) -> int | None:
        """The number of new deliveries; None where the contracts changed. `firsts` began their streams."""
        duties = {(plan.n, target.queue): max(now_ms, plan.due_at_ms) for plan in plans for target in plan.targets}
        events, queues, due = [n for n, _ in duties], [queue for _, queue in duties], list(duties.values())
        lease_ms = [None] * len(due) if offer is None else _lease_times(self.events, events, queues, due, offer, now_ms)
        unmatched = [plan.n for plan in plans if not plan.targets]
        every = [plan.n for plan in plans]
        batch = PlainBatch(self.version, every, unmatched, events, queues, due, now_ms, list(firsts), lease_ms, order)
        routed = await self._ready.put_plain(self._session, batch)
        if routed is None:
            return None
        if routed.leased and order is not None:
            self.claims = _claims(routed.leased, self.events, plans, order.token)
        return routed.total

    async def end(self) -> None:
        if self._begun:
            self._begun = False
            await undo(self._session)


def _is_plain(plans: Sequence[Plan]) -> bool:
    """Whether all targets are existing queues without lanes, and so without bursts."""
    return all(target.queue is not None and target.lane is None for plan in plans for target in plan.targets)


def _lease_times(
    stored: Sequence[Event],
    events: Sequence[int],
    queues: Sequence[int | None],
    due_at_ms: Sequence[int],
    offer: LeaseOffer,
    now_ms: int,
) -> list[int | None]:
    """For each delivery the time of its lease, as far as the offer goes: if it is due and its payload was read."""
    unread = {event.n for event in stored if not event.payload_json}
    left = dict(offer.places)
    times: list[int | None] = []
    for event, queue, due in zip(events, queues, due_at_ms, strict=True):
        if queue is not None and left.get(queue, 0) > 0 and due <= now_ms and event not in unread:
            left[queue] -= 1
            times.append(offer.lease_ms[queue])
        else:
            times.append(None)
    return times


def _claims(
    leased: Sequence[tuple[int, int, int]], stored: Sequence[Event], plans: Sequence[Plan], token: int
) -> list[Claim]:
    events = {event.n: event for event in stored}
    targets = {target.queue: target for plan in plans for target in plan.targets}
    claims = []
    for id, event, queue in leased:
        target = targets[queue]
        delivery = Delivery(id, target.address, target.contract_id, attempts=0, generation=1)
        claims.append(Claim(delivery, events[event], queue, token, starts=1))
    return claims


class Made(NamedTuple):
    """New deliveries, and how many older ones were dropped for them, by reason."""

    deliveries: int
    dropped: Mapping[str, int]


class Duty(NamedTuple):
    """A delivery to insert: an event for a queue, perhaps in a lane."""

    event: int
    queue: int
    lane: str | None
    due_at_ms: int
    burst: str | None
    may_coalesce_in_lane: bool


async def route(
    connection: PooledConnection,
    ready: PostgresReadyQueue,
    owner: Owner | None,
    plans: Sequence[Plan],
    firsts: set[int],
    now_ms: int,
) -> Made:
    """Insert the deliveries. The counts are updated last, since retention waits for the lock on their row."""
    waiting = {row[0] for row in await connection.rows(sql.unrouted_done, [plan.n for plan in plans])}
    plans = [plan for plan in plans if plan.n in waiting]
    unmatched = [plan.n for plan in plans if not plan.targets]
    added = await connection.run(sql.unmatched_add, unmatched) if unmatched else 0
    made = await _deliver(connection, ready, owner, [plan for plan in plans if plan.targets], now_ms)
    await connection.run(sql.counts_add, len(plans), added, len(firsts & waiting))
    return made


async def _deliver(
    connection: PooledConnection, ready: PostgresReadyQueue, owner: Owner | None, matched: Sequence[Plan], now_ms: int
) -> Made:
    if not matched:
        return Made(0, {})
    direct = await _direct_queues(connection, matched, now_ms)
    known = {tuple(row) for row in await connection.rows(sql.delivery_known, [plan.n for plan in matched])}
    duties: list[Duty] = []
    for plan in matched:
        for target in plan.targets:
            queue = target.queue if target.queue is not None else direct[target.address]
            if (plan.n, queue) not in known:
                known.add((plan.n, queue))
                due_at_ms, may_coalesce_in_lane = max(now_ms, plan.due_at_ms), may_coalesce(target.address)
                duties.append(Duty(plan.n, queue, target.lane, due_at_ms, target.burst, may_coalesce_in_lane))
    lanes = await _insert(connection, ready, duties, now_ms)
    bursts = [duty.event for duty in duties if duty.burst is not None]
    if owner is not None and (bursts or any(count > LANE_MAX for count in lanes.values())):
        return Made(len(duties), await coalesce_and_evict(connection, ready, owner, bursts, lanes, now_ms))
    return Made(len(duties), {})


async def _insert(
    connection: PooledConnection, ready: PostgresReadyQueue, duties: Sequence[Duty], now_ms: int
) -> dict[int, int]:
    """Insert deliveries. Returns how many are open in each lane that was joined and may be thinned out."""
    positions = iter(await join_lanes(connection, [duty.lane for duty in duties if duty.lane is not None]))
    lanes: list[int | None] = []
    places: list[int | None] = []
    due: list[int | None] = []
    waiting: dict[int, int] = {}
    for duty in duties:
        position = None if duty.lane is None else next(positions)
        lanes.append(None if position is None else position.lane)
        places.append(None if position is None else position.pos)
        due.append(duty.due_at_ms if position is None or position.head else None)
        if position is not None and duty.may_coalesce_in_lane:
            waiting[position.lane] = position.waiting
    events, queues = [duty.event for duty in duties], [duty.queue for duty in duties]
    bursts = [duty.burst for duty in duties]
    await ready.put_routed(connection, NewDeliveries(events, queues, lanes, places, due, now_ms, bursts))
    return waiting


async def _direct_queues(connection: PooledConnection, plans: Sequence[Plan], now_ms: int) -> dict[str, int]:
    wanted: dict[str, RouteTarget] = {
        target.address: target for plan in plans for target in plan.targets if target.queue is None
    }
    if not wanted:
        return {}
    kinds = [target.kind for target in wanted.values()]
    return dict(await connection.rows(sql.queue_direct, list(wanted), kinds, now_ms))
