"""What an operator sees and repairs, on PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from holdfast.domain.lane import lane_key
from holdfast.domain.receipt import Leaf
from holdfast.domain.states import REASONS_OF, Reason, State
from holdfast.store.postgres.clock import ServerClock
from holdfast.store.postgres.lanes import join_lanes
from holdfast.store.postgres.pool import Pool
from holdfast.store.postgres.pooled_connection import PooledConnection, Row
from holdfast.store.postgres.ready_queue import PostgresReadyQueue
from holdfast.store.postgres.receipts import write_link
from holdfast.store.postgres.settling import end_unheld
from holdfast.store.postgres.statements import sql
from holdfast.store.roles.operator import AttemptRow, DeliveryFilter, DeliveryRow
from holdfast.store.roles.owners import Owner
from holdfast.store.roles.page import Page
from holdfast.store.roles.ready_queue import ReadyRow
from holdfast.store.rows import to_attempt_row, to_delivery_row

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
        """Newest first. Dead letters have an index; anything else looks at a bounded span, then hands out a cursor."""
        where, values = _where(wanted)
        text = f"{sql.delivery_columns} WHERE d.id < $1 AND d.id >= $2 {where} ORDER BY d.id DESC LIMIT $3"
        found: list[Row] = []
        top = min(int(after) if after else _NEWEST, int(await self._pool.value(sql.delivery_last)) + 1)
        indexed = wanted.state == State.DEAD
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

    async def attempts(self, id: int) -> list[AttemptRow]:
        return [to_attempt_row(row) for row in await self._pool.rows(sql.attempts_of, id)]

    async def count_dead(self, wanted: DeliveryFilter) -> dict[str, int]:
        values = (wanted.reason, wanted.contract, wanted.address, wanted.stream, wanted.event)
        if any(value is not None for value in values):
            return dict(await self._pool.rows(sql.dead_count_filtered, *values))
        return dict(await self._pool.rows(sql.dead_count))

    async def dead_ids(self, wanted: DeliveryFilter, limit: int) -> list[int]:
        values = (wanted.reason, wanted.contract, wanted.address, wanted.stream, wanted.event, limit)
        return [row[0] for row in await self._pool.rows(sql.dead_oldest, *values)]

    async def count_ready(self, address: str) -> tuple[int, int]:
        """How many deliveries of this address can be claimed, now or once they are due, and how many are leased."""
        return await self._ready.count_address(self._pool, address)

    async def reprocess(self, owner: Owner, ids: Sequence[int], states: frozenset[str], actor: str) -> list[int]:
        """Requeue ended deliveries at the tail of their lanes. Returns the ids that were in one of `states`."""
        now_ms = self._clock.now_ms()

        async def work(session: PooledConnection) -> list[int]:
            facts = {row[0]: row for row in await session.rows(sql.delivery_facts, list(ids))}
            chosen = [facts[id] for id in dict.fromkeys(ids) if id in facts and facts[id][1] in states]
            await _revive(session, self._ready, chosen, now_ms)
            leaves: list[Leaf] = [(row[0], row[2] + 1, row[5], State.PENDING, None, 0) for row in chosen]
            await write_link(session, owner.chain, now_ms, actor, leaves)
            return [row[0] for row in chosen]

        done = await self._pool.run(work)
        self._changed("deliveries")
        return done

    async def discard(self, owner: Owner, ids: Sequence[int], actor: str) -> list[int]:
        return await self._end(owner, ids, State.DEAD, Reason.DISCARDED, actor)

    async def cancel(self, owner: Owner, ids: Sequence[int], actor: str) -> list[int]:
        return await self._end(owner, ids, State.PENDING, Reason.CANCELLED, actor)

    async def _end(self, owner: Owner, ids: Sequence[int], before: State, reason: Reason, actor: str) -> list[int]:
        now_ms = self._clock.now_ms()

        async def work(session: PooledConnection) -> list[int]:
            known = dict(await session.rows(sql.delivery_events, list(ids)))
            events = {id: known[id] for id in ids if id in known}
            return await end_unheld(
                session, self._ready, owner.chain, events, before, State.DROPPED, reason, now_ms, actor
            )

        ended = await self._pool.run(work)
        self._changed("deliveries")
        return ended

    async def make_due(self, ids: Sequence[int]) -> list[int]:
        """Make waiting deliveries due now."""
        now_ms = self._clock.now_ms()
        advanced = await self._pool.run(lambda session: self._ready.make_due(session, list(ids), now_ms))
        self._changed("deliveries")
        return [id for id in dict.fromkeys(ids) if id in advanced]

    async def pause(self, scope: str, name: str) -> bool:
        now_ms = self._clock.now_ms()

        async def work(session: PooledConnection) -> bool:
            fresh = await session.run(sql.pause_add, scope, name, now_ms) > 0
            if scope == "lane":
                for (lane,) in await session.rows(sql.lane_pause, name, True):
                    await self._ready.remove_lane(session, lane)
            else:
                await session.run(sql.queue_pause, name)
            return fresh

        return await self._pool.run(work)

    async def resume(self, scope: str, name: str) -> bool:
        now_ms = self._clock.now_ms()

        async def work(session: PooledConnection) -> bool:
            known = await session.run(sql.pause_remove, scope, name) > 0
            if scope == "lane":
                for (lane,) in await session.rows(sql.lane_pause, name, False):
                    await self._ready.put_heads(session, [lane], now_ms)
            else:
                await session.run(sql.queue_pause, name)
            return known

        known = await self._pool.run(work)
        self._changed("deliveries")
        return known

    async def pauses(self) -> list[tuple[str, str, int]]:
        return [(row[0], row[1], row[2]) for row in await self._pool.rows(sql.pause_all)]

    async def figures(self) -> dict[str, Any]:
        shift_ms = self._clock.shift_ms()

        async def look(session: PooledConnection) -> dict[str, Any]:
            ready = await self._ready.counts(session)
            ((lanes, _),) = await session.rows(sql.figures_lanes)
            ((routed, unmatched, streams, unrouted),) = await session.rows(sql.figures_events)
            known = unrouted <= FIRST_MAX
            return {
                "events": routed + unrouted,
                "unmatched": unmatched,
                "streams": streams + await session.value(sql.figures_first) if known else None,
                "unrouted": unrouted,
                "pending": ready.rows + await self._ready.count_behind(session),
                "in_flight": ready.leased,
                "lanes": lanes,
                "dead": await session.value(sql.figures_dead),
                "next_due_ms": _ours(ready.next_due_ms, shift_ms),
                "oldest_pending_ms": _ours(await self._ready.oldest_created_ms(session), shift_ms),
            }

        return await self._pool.run(look, durable=False, repeatable=True)


def _ours(at_ms: int | None, shift_ms: int) -> int | None:
    """A time of the database's by this process's own clock."""
    return None if at_ms is None else at_ms - shift_ms


async def _revive(session: PooledConnection, ready: PostgresReadyQueue, rows: Sequence[Row], now_ms: int) -> None:
    keys = [_lane_key(row) for row in rows]
    seats = iter(await join_lanes(session, [key for key in keys if key is not None]))
    given = [None if key is None else next(seats) for key in keys]
    lanes = [None if seat is None else seat.lane for seat in given]
    places = [None if seat is None else seat.pos for seat in given]
    await session.run(sql.delivery_revive, [row[0] for row in rows], lanes, places)
    heads = [row for row, seat in zip(rows, given, strict=True) if seat is None or seat.head]
    await ready.put(session, [ReadyRow(row[0], row[4], now_ms) for row in heads])


def _lane_key(facts: Row) -> str | None:
    """The lane it was in; its row may have been pruned since."""
    _, _, _, lane, _, _, stream, contract, address, kind = facts
    return None if lane is None else lane_key(kind, address, contract or None, stream, ordered=True)


def _where(wanted: DeliveryFilter) -> tuple[str, list[str]]:
    """The fixed fragments of the filters that were given, and their values."""
    fragments = (
        ("d.reason = ${}", wanted.reason),
        ("q.contract = ${}", wanted.contract),
        ("q.address = ${}", wanted.address),
        ("coalesce(e.stream, e.id) = ${}", wanted.stream),
        ("d.event = (SELECT n FROM {schema}.events WHERE id = ${})", wanted.event),
    )
    given = [(text, value) for text, value in fragments if value is not None]
    where = [f"AND {text.replace('{}', str(number))}" for number, (text, _) in enumerate(given, start=4)]
    if wanted.state is not None:  # written out, since a partial index is not seen through a parameter
        where.append(f"AND d.state = '{State(wanted.state)}'")
    if wanted.state == State.DEAD:  # says nothing new, except to the index
        where.append(f"AND d.reason IN ({_DEAD_REASONS})")
    return " ".join(where), [value for _, value in given]
