"""Events on PostgreSQL: append through the door (the SQL function for publishing), read without locks."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import asyncpg

from holdfast.domain.errors import DedupConflict
from holdfast.domain.event import Appended, Event, NewEvent, iso_time
from holdfast.domain.ids import ENTROPY_BYTES, make_ids
from holdfast.domain.receipt import some_of
from holdfast.ports import Chance, Clock
from holdfast.store.postgres.group_append import GroupAppend, Prepared
from holdfast.store.postgres.liveness import Liveness
from holdfast.store.postgres.pool import Pool
from holdfast.store.postgres.pooled_connection import PooledConnection, Row
from holdfast.store.postgres.receipts import write_action
from holdfast.store.postgres.statements import sql
from holdfast.store.roles.events import EventFilter, StreamRow
from holdfast.store.roles.owners import Actor
from holdfast.store.roles.page import PAGE_BYTES_MAX, Page
from holdfast.store.rows import is_wanted, pages_by_seq

SCAN_MAX = 20_000
_NEWEST = 1 << 62


class PostgresEvents:
    def __init__(
        self, pool: Pool, liveness: Liveness, clock: Clock, chance: Chance, changed: Callable[[str], None]
    ) -> None:
        self._pool, self._liveness, self._clock, self._chance, self._changed = pool, liveness, clock, chance, changed
        self._group = GroupAppend(self._append)

    async def append(self, events: Sequence[NewEvent]) -> list[Appended]:
        await self._pool.opened()
        now_ms = self._clock.now_ms()
        ids = make_ids("evt", now_ms, self._chance.entropy(ENTROPY_BYTES * len(events)))
        answer = await self._group.append([(event, event.id or id) for event, id in zip(events, ids, strict=True)])
        self._changed("events")
        return answer

    async def _append(self, prepared: Prepared) -> list[Appended]:
        now_ms, ring = self._clock.now_ms(), not self._liveness.working
        answer = await self._pool.single(lambda connection: _append_new(connection, prepared, now_ms, ring))
        if answer is None:
            answer = await self._pool.single(lambda connection: append(connection, prepared, now_ms, ring, door=True))
        return answer

    async def get(self, id: str) -> Event | None:
        rows = await self._pool.rows(sql.event_get, id)
        return Event(*rows[0]) if rows else None

    async def with_key(self, source: str, key: str) -> str | None:
        id = await self._pool.value(sql.event_first, source, key)
        return None if id is None else str(id)

    async def with_prefix(self, prefix: str) -> list[str]:
        return [row[0] for row in await self._pool.rows(sql.event_prefix, prefix, f"{prefix}\U0010ffff")]

    async def find(self, wanted: EventFilter, after: str | None, limit: int) -> Page[Event]:
        """Newest first. A filter without an index scans a bounded number of rows, then returns a cursor."""
        before = int(after) if after else _NEWEST
        numbers, more = await self._find(wanted, before, limit)
        whole = {row[0]: row for row in await self._pool.rows(sql.event_whole, numbers)} if numbers else {}
        events = [Event(*whole[n]) for n in numbers if n in whole]  # one may have been pruned meanwhile
        return Page(events, None if more is None else str(more))

    async def streams(self, after: str | None, limit: int) -> Page[StreamRow]:
        rows = await self._pool.rows(sql.stream_page, after or "", limit)
        return Page([StreamRow(*row) for row in rows], rows[-1][0] if len(rows) == limit else None)

    async def stream(self, id: str) -> StreamRow | None:
        rows = await self._pool.rows(sql.stream_get, id)
        return StreamRow(*rows[0]) if rows else None

    async def read(self, stream: str, after_seq: int, limit: int) -> list[Event]:
        """In `seq` order. An event without a stream is a stream of one, under its own id."""
        rows = await self._pool.rows(sql.stream_read, stream, after_seq, limit, PAGE_BYTES_MAX)
        if not rows and after_seq < 1:
            single = await self.get(stream)
            return [single] if single is not None and single.stream == stream else []
        return [Event(*row) for row in rows]

    async def read_many(self, places: Sequence[tuple[str, int]], limit: int, bytes_max: int) -> list[list[Event]]:
        streams, positions = [stream for stream, _ in places], [after for _, after in places]
        found: list[list[Event]] = [[] for _ in places]
        for row in await self._pool.rows(sql.stream_read_many, streams, positions, limit, bytes_max):
            found[row[0] - 1].append(Event(*row[1:]))
        return found

    async def first_seq(self, stream: str) -> int | None:
        found: int | None = await self._pool.value(sql.stream_first, stream)
        return found

    async def reroute(self, ids: Sequence[str], *, by: Actor | None = None) -> int:
        now_ms = self._clock.now_ms()

        async def work(connection: PooledConnection) -> int:
            count = await connection.run(sql.event_reroute, list(ids))
            if count:
                await write_action(connection, by, now_ms, "route", events=some_of(ids))
            return count

        count = await self._pool.run(work, repeatable=True)
        self._changed("events")
        return count

    async def _find(self, wanted: EventFilter, before: int, limit: int) -> tuple[list[int], int | None]:
        """Numbers of the matching events, newest first, and the position after them."""
        found: list[int] = []
        scanned, size, step = 0, 0, max(limit, 500)
        while scanned < SCAN_MAX:
            rows = await self._page(wanted, before, step)
            for row in rows:
                if is_wanted(wanted, row, properties=7):
                    found.append(row[0])
                    size += row[6]
                    if len(found) == limit or size >= PAGE_BYTES_MAX:
                        return found, _place(wanted, row)
            if len(rows) < step:
                return found, None
            scanned += len(rows)
            before = _place(wanted, rows[-1])
        return found, before

    async def _page(self, wanted: EventFilter, before: int, step: int) -> list[Row]:
        search = bool(wanted.words)
        if wanted.unmatched:
            return await self._pool.rows(sql.event_page_unmatched, before, step, search)
        if pages_by_seq(wanted):
            return await self._pool.rows(sql.event_page_stream, wanted.stream, before, step, search)
        return await self._pool.rows(sql.event_page, before, step, search)


def _place(wanted: EventFilter, row: Row) -> int:
    return int(row[3] if pages_by_seq(wanted) else row[0])


async def _append_new(
    connection: PooledConnection, prepared: Prepared, now_ms: int, ring: bool
) -> list[Appended] | None:
    """None if the events exist already, from an earlier try whose answer was lost: the door reports duplicates."""
    try:
        return await append(connection, prepared, now_ms, ring)
    except asyncpg.UniqueViolationError:
        return None


async def append(
    connection: PooledConnection, prepared: Prepared, now_ms: int, ring: bool, *, door: bool = False
) -> list[Appended]:
    """Append inside a transaction that is already open, or by itself: all events enter the table here.

    Events for which the door has nothing to check are inserted directly, unless `door` is set.
    """
    if not prepared:
        return []
    if len(prepared) == 1 and not door and _is_plain(prepared[0][0]):
        await connection.rows(sql.event_append_one, *_plain_row(*prepared[0], now_ms), now_ms, ring)
        return [Appended(prepared[0][1], prepared[0][1], 1)]
    columns = None if door else _plain_columns(prepared, now_ms)
    if columns is not None:
        await connection.rows(sql.event_append_plain, *columns, now_ms, ring)
        return [Appended(id, id, 1) for _, id in prepared]
    if len(prepared) == 1:
        return [Appended(*(await connection.rows(sql.event_append, *_door_row(*prepared[0], now_ms), ring))[0])]
    fresh, same = _without_repeats(prepared)
    given = [list(column) for column in zip(*(_door_row(event, id, now_ms) for event, id in fresh), strict=True)]
    values: list[object] = [*given[:10], now_ms, given[11]]
    answers = [Appended(*row) for row in await connection.rows(sql.event_append_many, *values, ring)]
    firsts = [answers[index] for index in same]
    return [
        one if one.id == id else Appended(one.id, one.stream, one.seq, duplicate=True)
        for one, (_, id) in zip(firsts, prepared, strict=True)
    ]


def _plain_row(event: NewEvent, id: str, now_ms: int) -> tuple[str, ...]:
    """The values of `event_append_one`, in its order."""
    timestamp = event.timestamp or iso_time(now_ms)
    return id, event.type, event.payload.decode(), event.source, timestamp, event.properties.decode()


def _plain_columns(prepared: Prepared, now_ms: int) -> tuple[str | list[str], ...] | None:
    """The values of `event_append_plain`, in its order; None where the door is needed.

    It is needed for an event with a stream, a key, an address, a time or an id of its own, or with a line break in a
    value that is sent as one line.
    """
    events = [event for event, _ in prepared]
    if not all(map(_is_plain, events)):
        return None
    now = iso_time(now_ms)
    types = _lines([event.type for event in events])
    sources = _lines([event.source for event in events])
    times = _lines([event.timestamp or now for event in events])
    properties = _lines([event.properties.decode() for event in events])
    if types is None or sources is None or times is None or properties is None:
        return None
    ids, payloads = "\n".join([id for _, id in prepared]), [event.payload.decode() for event in events]
    return ids, types, payloads, sources, times, properties


def _lines(values: list[str]) -> str | None:
    """One line for each value, or a single line if all are the same; None if a value is not a single line."""
    same = len(set(values)) == 1
    text = values[0] if same else "\n".join(values)
    return text if text and text.count("\n") == (0 if same else len(values) - 1) else None


def _is_plain(event: NewEvent) -> bool:
    return (
        event.stream is None
        and event.dedup_key is None
        and event.to is None
        and event.not_before_ms is None
        and event.id is None
    )


def _door_row(event: NewEvent, id: str, now_ms: int) -> tuple[object, ...]:
    """The values of `event_append`, in its order."""
    return (
        id, event.type, event.payload.decode(), event.source, event.stream, event.timestamp or iso_time(now_ms),
        event.properties.decode(), event.dedup_key, event.to, event.not_before_ms, now_ms,
        event.digest if event.dedup_key is not None else None,
    )  # fmt: skip


def _without_repeats(prepared: Prepared) -> tuple[list[tuple[NewEvent, str]], list[int]]:
    """The events with each key and id once, and for every given event the index of its first occurrence."""
    fresh: list[tuple[NewEvent, str]] = []
    same: list[int] = []
    known: dict[tuple[str, ...], int] = {}
    for event, id in prepared:
        names = [("id", id)] if event.dedup_key is None else [("key", event.source, event.dedup_key), ("id", id)]
        index = next((known[name] for name in names if name in known), len(fresh))
        if index == len(fresh):
            fresh.append((event, id))
        elif event.dedup_key is not None and fresh[index][0].digest != event.digest:
            raise DedupConflict("this dedup_key was used before with another body; use a new key for a new fact")
        for name in names:
            known.setdefault(name, index)
        same.append(index)
    return fresh, same
