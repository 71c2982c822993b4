"""What an operator sees and repairs, on PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from holdfast.domain.address import without_tokens
from holdfast.domain.lane import lane_key
from holdfast.domain.receipt import Leaf, id_ranges
from holdfast.domain.states import REASONS_OF, Reason, State
from holdfast.store.backlog import LANES_MAX, LaneCounts, pending_of
from holdfast.store.postgres.clock import ServerClock
from holdfast.store.postgres.lanes import join_lanes
from holdfast.store.postgres.pool import Pool
from holdfast.store.postgres.pooled_connection import PooledConnection, Row
from holdfast.store.postgres.ready_queue import PostgresReadyQueue
from holdfast.store.postgres.receipts import write_action, write_link
from holdfast.store.postgres.settling import end_unheld
from holdfast.store.postgres.statements import sql
from holdfast.store.roles.operator import (
    AttemptRow,
    DeadGroup,
    DeliveryFilter,
    DeliveryRow,
    QueueBacklog,
    StoreFigures,
    StuckLane,
)
from holdfast.store.roles.owners import Actor, Owner
from holdfast.store.roles.page import Page
from holdfast.store.roles.ready_queue import ReadyRow
from holdfast.store.rows import by_queue, has_index, nested, to_attempt_row, to_delivery_row

SPAN = 2000
SCAN_MAX = 50_000
FIRST_MAX = 50_000  # with more events before the router, the number of streams is unknown rather than slow
_NEWEST = 1 << 62
_DEAD_REASONS = ", ".join(f"'{reason}'" for reason in sorted(REASONS_OF[State.DEAD]))


class PostgresOperator:
    def __init__(
        self, pool: Pool, ready: PostgresReadyQueue, clock: ServerClock, changed: Callable[[str], None]
    ) -> None:
        self._pool, self._ready, self._clock, self._changed = pool, ready, clock, changed

    async def deliveries(self, wanted: DeliveryFilter, after: str | None, limit: int) -> Page[DeliveryRow]:
        """Newest first.

        Dead letters and the deliveries of an event have an index; anything else looks at a bounded span, then hands out
        a cursor.
        """
        where, values = _where(wanted)
        text = f"{sql.delivery_columns} WHERE d.id < $1 AND d.id >= $2 {where} ORDER BY d.id DESC LIMIT $3"
        found: list[Row] = []
        top = min(int(after) if after else _NEWEST, int(await self._pool.value(sql.delivery_last)) + 1)
        indexed = has_index(wanted)
        lowest = 0 if indexed else max(0, top - SCAN_MAX)
        while top > lowest and len(found) < limit:
            bottom = lowest if indexed else max(lowest, top - SPAN)
            found += await self._pool.rows(text, top, bottom, limit - len(found), *values)
            top = bottom
        more = found[-1][0] if len(found) == limit else lowest if lowest > 0 else None
        return Page([to_delivery_row(row) for row in found], None if more is None else str(more))

    async def delivery(self, id: int) -> DeliveryRow | None:
        rows = await self._pool.rows(f"{sql.delivery_columns} WHERE d.id = $1", id)
        return to_delivery_row(rows[0]) if rows else None

    async def states_of(self, events: Sequence[str]) -> dict[str, dict[str, int]]:
        return nested(await self._pool.rows(sql.states_of, list(events)))

    async def attempts(self, id: int) -> list[AttemptRow]:
        return [to_attempt_row(row) for row in await self._pool.rows(sql.attempts_of, id)]

    async def count_dead(self, wanted: DeliveryFilter) -> dict[str, int]:
        return by_queue(await self.dead_groups(wanted))

    async def dead_groups(self, wanted: DeliveryFilter) -> list[DeadGroup]:
        values = (wanted.reason, wanted.contract, wanted.address, wanted.stream, wanted.event)
        return [DeadGroup(*row) for row in await self._pool.rows(sql.dead_groups, *values)]

    async def count_pending(self, limit: int) -> dict[str, int]:
        return await self._ready.pending_by_queue(self._pool, limit)

    async def dead_ids(self, wanted: DeliveryFilter, limit: int) -> list[int]:
        values = (wanted.reason, wanted.contract, wanted.address, wanted.stream, wanted.event, limit)
        return [row[0] for row in await self._pool.rows(sql.dead_oldest, *values)]

    async def count_ready(self, address: str) -> tuple[int, int]:
        """How many deliveries of this address can be claimed, now or once they are due, and how many are leased."""
        return await self._ready.count_address(self._pool, address)

    async def backlog(self, queue: str) -> QueueBacklog | None:
        shift_ms = self._clock.shift_ms()

        async def look(connection: PooledConnection) -> QueueBacklog | None:
            for id, contract, _ in await connection.rows(sql.queue_named, queue):
                depth = await self._ready.depth(connection, id)
                ((lanes, waiting, unpaused),) = await connection.rows(sql.queue_lanes, queue, LANES_MAX)
                pending = pending_of(depth, LaneCounts(lanes, waiting, unpaused))
                oldest_ms = _local_time(await connection.value(sql.delivery_created, depth.oldest), shift_ms)
                return QueueBacklog(queue, contract or None, pending, depth.leased, oldest_ms)
            return None

        return await self._pool.run(look, durable=False, repeatable=True)

    async def reprocess(self, owner: Owner, ids: Sequence[int], states: frozenset[str], actor: str) -> list[int]:
        """Requeue ended deliveries at the tail of their lanes. Returns the ids that were in one of `states`."""
        now_ms = self._clock.now_ms()

        async def work(connection: PooledConnection) -> list[int]:
            facts = {row[0]: row for row in await connection.rows(sql.delivery_facts, list(ids))}
            chosen = [facts[id] for id in dict.fromkeys(ids) if id in facts and facts[id][1] in states]
            await _requeue(connection, self._ready, chosen, now_ms)
            leaves: list[Leaf] = [(row[0], row[2] + 1, row[5], State.PENDING, None, 0) for row in chosen]
            await write_link(connection, owner.chain, now_ms, actor, leaves)
            return [row[0] for row in chosen]

        done = await self._pool.run(work)
        self._changed("deliveries")
        return done

    async def discard(self, owner: Owner, ids: Sequence[int], actor: str) -> list[int]:
        return await self._end(owner, ids, State.DEAD, Reason.DISCARDED, actor)

    async def cancel(self, owner: Owner, ids: Sequence[int], actor: str) -> list[int]:
        return await self._end(owner, ids, State.PENDING, Reason.CANCELLED, actor)

    async def expire(self, owner: Owner, ids: Sequence[int], actor: str) -> list[int]:
        return await self._end(owner, ids, State.PENDING, Reason.EXPIRED, actor)

    async def count_lane(self, lane: str) -> int:
        return int(await self._pool.value(sql.lane_open, lane) or 0)

    async def stuck_lanes(self, limit: int) -> list[StuckLane]:
        shift_ms = self._clock.shift_ms()
        found = [StuckLane(*row) for row in await self._pool.rows(sql.lanes_stuck, limit)]
        return [lane._replace(since_ms=lane.since_ms - shift_ms) for lane in found]

    async def first_in_lane(self, lane: str, limit: int) -> list[tuple[int, str]]:
        return [(row[0], row[1]) for row in await self._pool.rows(sql.lane_pending, lane, limit)]

    async def _end(self, owner: Owner, ids: Sequence[int], before: State, reason: Reason, actor: str) -> list[int]:
        now_ms = self._clock.now_ms()

        async def work(connection: PooledConnection) -> list[int]:
            known = dict(await connection.rows(sql.delivery_events, list(ids)))
            events = {id: known[id] for id in ids if id in known}
            return await end_unheld(
                connection, self._ready, owner.chain, events, before, State.DROPPED, reason, now_ms, actor
            )

        ended = await self._pool.run(work)
        self._changed("deliveries")
        return ended

    async def make_due(self, ids: Sequence[int], *, by: Actor | None = None) -> list[int]:
        """Make waiting deliveries due now."""
        now_ms = self._clock.now_ms()

        async def work(connection: PooledConnection) -> set[int]:
            due = await self._ready.make_due(connection, list(ids), now_ms)
            if due:
                await write_action(connection, by, now_ms, "retry", deliveries=id_ranges(due))
            return due

        advanced = await self._pool.run(work)
        self._changed("deliveries")
        return [id for id in dict.fromkeys(ids) if id in advanced]

    async def pause(self, scope: str, name: str, *, by: Actor | None = None) -> bool:
        now_ms = self._clock.now_ms()

        async def work(connection: PooledConnection) -> bool:
            fresh = await connection.run(sql.pause_add, scope, name, now_ms) > 0
            if scope == "lane":
                for (lane,) in await connection.rows(sql.lane_pause, name, True):
                    await self._ready.remove_lane(connection, lane)
            else:
                await connection.run(sql.queue_pause, name)
            if fresh:
                await write_action(connection, by, now_ms, "pause", scope=scope, name=without_tokens(name))
            return fresh

        return await self._pool.run(work)

    async def resume(self, scope: str, name: str, *, by: Actor | None = None) -> bool:
        now_ms = self._clock.now_ms()

        async def work(connection: PooledConnection) -> bool:
            ended = await connection.rows(sql.pause_remove, scope, name)
            if scope == "lane":
                for (lane,) in await connection.rows(sql.lane_pause, name, False):
                    await self._ready.put_heads(connection, [lane], now_ms)
            else:
                await connection.run(sql.queue_pause, name)
            for (since_ms,) in ended:
                about = without_tokens(name)
                await write_action(connection, by, now_ms, "resume", scope=scope, name=about, since=since_ms)
            return bool(ended)

        known = await self._pool.run(work)
        self._changed("deliveries")
        return known

    async def pauses(self) -> list[tuple[str, str, int]]:
        return [(row[0], row[1], row[2]) for row in await self._pool.rows(sql.pause_all)]

    async def figures(self) -> StoreFigures:
        shift_ms = self._clock.shift_ms()

        async def look(connection: PooledConnection) -> StoreFigures:
            ready = await self._ready.counts(connection)
            ((lanes, _),) = await connection.rows(sql.figures_lanes)
            ((routed, unmatched, streams, unrouted),) = await connection.rows(sql.figures_events)
            known = unrouted <= FIRST_MAX
            return StoreFigures(
                events=routed + unrouted,
                unmatched=unmatched,
                streams=streams + await connection.value(sql.figures_first) if known else None,
                unrouted=unrouted,
                pending=ready.rows + await self._ready.count_behind(connection),
                in_flight=ready.leased,
                lanes=lanes,
                dead_by_reason={row[0]: row[1] for row in await connection.rows(sql.figures_dead)},
                next_due_ms=_local_time(ready.next_due_ms, shift_ms),
                oldest_pending_ms=_local_time(await self._ready.oldest_created_ms(connection), shift_ms),
            )

        return await self._pool.run(look, durable=False, repeatable=True)


def _local_time(at_ms: int | None, shift_ms: int) -> int | None:
    """A time of the database's by this process's own clock."""
    return None if at_ms is None else at_ms - shift_ms


async def _requeue(connection: PooledConnection, ready: PostgresReadyQueue, rows: Sequence[Row], now_ms: int) -> None:
    keys = [_lane_key(row) for row in rows]
    seats = iter(await join_lanes(connection, [key for key in keys if key is not None]))
    given = [None if key is None else next(seats) for key in keys]
    lanes = [None if seat is None else seat.lane for seat in given]
    places = [None if seat is None else seat.pos for seat in given]
    await connection.run(sql.delivery_requeue, [row[0] for row in rows], lanes, places)
    heads = [row for row, seat in zip(rows, given, strict=True) if seat is None or seat.head]
    await ready.put(connection, [ReadyRow(row[0], row[4], now_ms) for row in heads])


def _lane_key(facts: Row) -> str | None:
    """The lane it was in; its row may have been pruned since."""
    _, _, _, lane, _, _, stream, contract, address, kind = facts
    return None if lane is None else lane_key(kind, address, contract or None, stream, ordered=True)


def _where(wanted: DeliveryFilter) -> tuple[str, list[str]]:
    """The fixed fragments of the filters that were given, and their values."""
    fragments = (
        ("d.reason = ${}", wanted.reason),
        # By the number of the queue: then a row of another queue is passed over without looking up anything else.
        ("d.queue = (SELECT id FROM {schema}.queues WHERE contract = ${} AND contract <> '')", wanted.contract),
        ("d.queue IN (SELECT id FROM {schema}.queues WHERE address = ${})", wanted.address),
        ("coalesce(e.stream, e.id) = ${}", wanted.stream),
        ("d.event = (SELECT n FROM {schema}.events WHERE id = ${})", wanted.event),
    )
    given = [(text, value) for text, value in fragments if value is not None]
    where = [f"AND {text.replace('{}', str(number))}" for number, (text, _) in enumerate(given, start=4)]
    if wanted.state is not None:  # written out: the planner uses a partial index only for a literal
        where.append(f"AND d.state = '{State(wanted.state)}'")
    if wanted.state == State.DEAD:  # implied by the state; the index has this condition
        where.append(f"AND d.reason IN ({_DEAD_REASONS})")
    return " ".join(where), [value for _, value in given]
