"""What an operator sees and repairs, on SQLite."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from holdfast.domain.address import without_tokens
from holdfast.domain.lane import lane_key
from holdfast.domain.receipt import Leaf, id_ranges
from holdfast.domain.states import Reason, State
from holdfast.ports import Clock
from holdfast.store.backlog import LANES_MAX, LaneCounts, pending_of
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
from holdfast.store.sqlite.connection import Connection, Row
from holdfast.store.sqlite.deliveries import end_pending
from holdfast.store.sqlite.lanes import join_lanes
from holdfast.store.sqlite.reader import Reader
from holdfast.store.sqlite.ready_queue import SqliteReadyQueue
from holdfast.store.sqlite.receipts import write_action, write_link
from holdfast.store.sqlite.statements import sql
from holdfast.store.sqlite.writer import Writer

_NEWEST = 1 << 62
SPAN = 2000
SCAN_MAX = 50_000


class SqliteOperator:
    def __init__(
        self, writer: Writer, reader: Reader, ready: SqliteReadyQueue, clock: Clock, changed: Callable[[str], None]
    ) -> None:
        self._writer, self._reader, self._clock, self._changed = writer, reader, clock, changed
        self._ready = ready

    async def deliveries(self, wanted: DeliveryFilter, after: str | None, limit: int) -> Page[DeliveryRow]:
        """Newest first."""
        where, values = _where(wanted)
        before = int(after) if after else _NEWEST
        rows, more = await self._reader.run(lambda c: _page(c, where, values, before, limit, has_index(wanted)))
        return Page([to_delivery_row(row) for row in rows], None if more is None else str(more))

    async def delivery(self, id: int) -> DeliveryRow | None:
        text = f"{sql.delivery_columns} WHERE d.id = ?"
        rows = await self._reader.run(lambda c: c.rows(text, (id,)))
        return to_delivery_row(rows[0]) if rows else None

    async def states_of(self, events: Sequence[str]) -> dict[str, dict[str, int]]:
        ids = json.dumps(list(events))
        return nested(await self._reader.run(lambda c: c.rows(sql.states_of, (ids,))))

    async def attempts(self, id: int) -> list[AttemptRow]:
        rows = await self._reader.run(lambda c: c.rows(sql.attempts_of, (id,)))
        return [to_attempt_row(row) for row in rows]

    async def count_dead(self, wanted: DeliveryFilter) -> dict[str, int]:
        return by_queue(await self.dead_groups(wanted))

    async def dead_groups(self, wanted: DeliveryFilter) -> list[DeadGroup]:
        params = (wanted.reason, wanted.contract, wanted.address, wanted.stream, wanted.event)
        rows = await self._reader.run(lambda c: c.rows(sql.dead_groups, params))
        return [DeadGroup(*row) for row in rows]

    async def count_pending(self, limit: int) -> dict[str, int]:
        return await self._reader.run(lambda connection: self._ready.pending_by_queue(connection, limit))

    async def dead_ids(self, wanted: DeliveryFilter, limit: int) -> list[int]:
        params = (wanted.reason, wanted.contract, wanted.address, wanted.stream, wanted.event, limit)
        return [row[0] for row in await self._reader.run(lambda c: c.rows(sql.dead_oldest, params))]

    async def count_ready(self, address: str) -> tuple[int, int]:
        """How many deliveries of this address can be claimed, now or once they are due, and how many are leased."""
        return await self._reader.run(lambda connection: self._ready.count_address(connection, address))

    async def backlog(self, queue: str) -> QueueBacklog | None:
        def look(connection: Connection) -> QueueBacklog | None:
            for id, contract, _ in connection.rows(sql.queue_named, (queue,)):
                depth = self._ready.depth(connection, id)
                lanes = LaneCounts(*connection.rows(sql.queue_lanes, (queue, LANES_MAX))[0])
                created = connection.rows(sql.delivery_created, (depth.oldest,))
                oldest_ms = created[0][0] if created else None
                return QueueBacklog(queue, contract or None, pending_of(depth, lanes), depth.leased, oldest_ms)
            return None

        return await self._reader.run(look)

    async def reprocess(self, owner: Owner, ids: Sequence[int], states: frozenset[str], actor: str) -> list[int]:
        """Requeue ended deliveries at the tail of their lanes. Returns the ids that were in one of `states`."""
        now_ms = self._clock.now_ms()

        def work(connection: Connection) -> list[int]:
            leaves: list[Leaf] = []
            for id in ids:
                facts = connection.rows(sql.delivery_facts, (id,))
                if facts and facts[0][0] in states:
                    leaves.append(_requeue(connection, self._ready, id, facts[0], now_ms))
            write_link(connection, owner.chain, now_ms, actor, leaves)
            return [leaf[0] for leaf in leaves]

        done = await self._writer.run(work, heavy=True)
        self._changed("deliveries")
        return done

    async def discard(self, owner: Owner, ids: Sequence[int], actor: str) -> list[int]:
        return await self._end(owner, ids, State.DEAD, Reason.DISCARDED, actor)

    async def cancel(self, owner: Owner, ids: Sequence[int], actor: str) -> list[int]:
        return await self._end(owner, ids, State.PENDING, Reason.CANCELLED, actor)

    async def expire(self, owner: Owner, ids: Sequence[int], actor: str) -> list[int]:
        return await self._end(owner, ids, State.PENDING, Reason.EXPIRED, actor)

    async def count_lane(self, lane: str) -> int:
        rows = await self._reader.run(lambda c: c.rows(sql.lane_open, (lane,)))
        return int(rows[0][0]) if rows else 0

    async def stuck_lanes(self, limit: int) -> list[StuckLane]:
        return [StuckLane(*row) for row in await self._reader.run(lambda c: c.rows(sql.lanes_stuck, (limit,)))]

    async def first_in_lane(self, lane: str, limit: int) -> list[tuple[int, str]]:
        rows = await self._reader.run(lambda c: c.rows(sql.lane_pending, (lane, limit)))
        return [(row[0], row[1]) for row in rows]

    async def _end(self, owner: Owner, ids: Sequence[int], before: State, reason: Reason, actor: str) -> list[int]:
        now_ms = self._clock.now_ms()

        def work(connection: Connection) -> list[int]:
            done: list[Row] = []
            for id in dict.fromkeys(ids):
                facts = connection.rows(sql.delivery_facts, (id,))
                if facts and facts[0][0] == before:
                    done.append((id, facts[0][1], facts[0][2], facts[0][5]))
            if before is State.PENDING:
                end_pending(connection, self._ready, owner, done, State.DROPPED, reason, now_ms, actor)
            else:
                leaves: list[Leaf] = []
                for id, generation, attempts, event_id in done:
                    connection.run(sql.delivery_end, (State.DROPPED, reason, attempts, now_ms, None, None, id))
                    leaves.append((id, generation, event_id, State.DROPPED, reason, attempts))
                write_link(connection, owner.chain, now_ms, actor, leaves)
            return [row[0] for row in done]

        ended = await self._writer.run(work, heavy=True)
        self._changed("deliveries")
        return ended

    async def make_due(self, ids: Sequence[int], *, by: Actor | None = None) -> list[int]:
        """Make waiting deliveries due now."""
        now_ms = self._clock.now_ms()

        def work(connection: Connection) -> set[int]:
            due = self._ready.make_due(connection, ids, now_ms)
            if due:
                write_action(connection, by, now_ms, "retry", deliveries=id_ranges(due))
            return due

        advanced = await self._writer.run(work)
        self._changed("deliveries")
        return [id for id in dict.fromkeys(ids) if id in advanced]

    async def pause(self, scope: str, name: str, *, by: Actor | None = None) -> bool:
        now_ms = self._clock.now_ms()

        def work(connection: Connection) -> bool:
            fresh = connection.run(sql.pause_add, (scope, name, now_ms)) > 0
            if scope == "lane":
                for (lane,) in connection.rows(sql.lane_pause, (name, 1)):
                    self._ready.remove_lane(connection, lane)
            else:
                connection.run(sql.queue_pause, (name,))
            if fresh:
                write_action(connection, by, now_ms, "pause", scope=scope, name=without_tokens(name))
            return fresh

        return await self._writer.run(work, heavy=True)

    async def resume(self, scope: str, name: str, *, by: Actor | None = None) -> bool:
        now_ms = self._clock.now_ms()

        def work(connection: Connection) -> bool:
            ended = connection.rows(sql.pause_remove, (scope, name))
            if scope == "lane":
                for (lane,) in connection.rows(sql.lane_pause, (name, 0)):
                    self._ready.put_heads(connection, [lane], now_ms)
            else:
                connection.run(sql.queue_pause, (name,))
            for (since_ms,) in ended:
                about = without_tokens(name)
                write_action(connection, by, now_ms, "resume", scope=scope, name=about, since=since_ms)
            return bool(ended)

        known = await self._writer.run(work, heavy=True)
        self._changed("deliveries")
        return known

    async def pauses(self) -> list[tuple[str, str, int]]:
        rows = await self._reader.run(lambda c: c.rows(sql.pause_all))
        return [(row[0], row[1], row[2]) for row in rows]

    async def figures(self) -> StoreFigures:
        def look(connection: Connection) -> StoreFigures:
            ready = self._ready.counts(connection)
            lanes, _ = connection.rows(sql.figures_lanes)[0]
            routed, unmatched, streams = connection.rows(sql.figures_events)[0]
            unrouted = connection.rows(sql.unrouted_count)[0][0]
            return StoreFigures(
                events=routed + unrouted,
                unmatched=unmatched,
                streams=streams,
                unrouted=unrouted,
                pending=ready.rows + self._ready.count_behind(connection),
                in_flight=ready.leased,
                lanes=lanes,
                dead_by_reason=dict(connection.rows(sql.figures_dead)),
                next_due_ms=ready.next_due_ms,
                oldest_pending_ms=self._ready.oldest_created_ms(connection),
            )

        return await self._reader.run(look)


def _requeue(connection: Connection, ready: SqliteReadyQueue, id: int, facts: Row, now_ms: int) -> Leaf:
    _, generation, _, lane, queue, event_id, stream, contract, address, kind = facts
    pos = None
    claimable = True
    if lane is not None:
        key = lane_key(kind, address, contract or None, stream, ordered=True)
        (seat,) = join_lanes(connection, [key or ""])
        lane, pos, claimable = seat.lane, seat.pos, seat.is_head
    connection.run(sql.delivery_requeue, (lane, pos, id))
    if claimable:
        ready.put(connection, [ReadyRow(id, queue, now_ms)])
    return (id, generation + 1, event_id, State.PENDING, None, 0)


def _page(
    connection: Connection, where: str, values: list[str | int], before: int, limit: int, indexed: bool
) -> tuple[list[Row], int | None]:
    """Newest first. With an index all are found; otherwise a bounded span is scanned, and a cursor returned."""
    found: list[Row] = []
    top = min(before, connection.rows(sql.delivery_last)[0][0] + 1)
    lowest = 0 if indexed else max(0, top - SCAN_MAX)
    while top > lowest and len(found) < limit:
        bottom = lowest if indexed else max(lowest, top - SPAN)
        text = f"{sql.delivery_columns} WHERE d.id < ? AND d.id >= ? {where} ORDER BY d.id DESC LIMIT ?"
        found += connection.rows(text, (top, bottom, *values, limit - len(found)))
        top = bottom
    if len(found) == limit:
        return found, found[-1][0]
    return found, lowest if lowest > 0 else None


def _where(wanted: DeliveryFilter) -> tuple[str, list[str | int]]:
    """The fixed fragments of the filters that were given, and their values."""
    fragments = {
        # Written out: the planner uses a partial index only for a literal.
        "state": (f"AND d.state = '{State(wanted.state)}' AND ?" if wanted.state else "", wanted.state and 1),
        "reason": ("AND d.reason = ?", wanted.reason),
        # By the number of the queue: then a row of another queue is passed over without looking up anything else.
        "contract": (
            "AND d.queue = (SELECT id FROM holdfast_queues WHERE contract = ? AND contract <> '')",
            wanted.contract,
        ),
        "address": ("AND d.queue IN (SELECT id FROM holdfast_queues WHERE address = ?)", wanted.address),
        "stream": ("AND coalesce(e.stream, e.id) = ?", wanted.stream),
        "event": ("AND d.event = (SELECT n FROM holdfast_events WHERE id = ?)", wanted.event),
    }
    given = [(text, value) for text, value in fragments.values() if value is not None]
    return " ".join(text for text, _ in given), [value for _, value in given]
