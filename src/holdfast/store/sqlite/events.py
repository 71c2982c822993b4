"""Events on SQLite: append through the door (the view for publishing), read without blocking writers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import islice

from holdfast.domain.errors import StreamClosed
from holdfast.domain.event import Appended, Event, NewEvent, iso_time
from holdfast.domain.ids import ENTROPY_BYTES, make_id
from holdfast.domain.receipt import some_of
from holdfast.domain.text import short_repr
from holdfast.ports import Chance, Clock
from holdfast.store.roles.events import EventFilter, StreamRow
from holdfast.store.roles.owners import Actor
from holdfast.store.roles.page import PAGE_BYTES_MAX, Page
from holdfast.store.rows import event_bytes, is_wanted, pages_by_seq
from holdfast.store.sqlite.connection import Connection, Row
from holdfast.store.sqlite.inserts import insert
from holdfast.store.sqlite.reader import Reader
from holdfast.store.sqlite.receipts import write_action
from holdfast.store.sqlite.statements import sql
from holdfast.store.sqlite.writer import HEAVY_ROWS, BatchableWork, Writer

SCAN_MAX = 20_000
_NEWEST = 1 << 62
_ANY = EventFilter()


class SqliteEvents:
    def __init__(
        self, writer: Writer, reader: Reader, clock: Clock, chance: Chance, changed: Callable[[str], None]
    ) -> None:
        self._writer, self._reader, self._clock, self._chance, self._changed = (
            writer,
            reader,
            clock,
            chance,
            changed,
        )

    async def append(self, events: Sequence[NewEvent]) -> list[Appended]:
        now_ms = self._clock.now_ms()
        work = _Append(with_ids(events, now_ms, self._chance), now_ms)
        answer = await self._writer.run(work, heavy=len(events) > HEAVY_ROWS)
        self._changed("events")
        return answer

    async def get(self, id: str) -> Event | None:
        rows = await self._reader.run(lambda c: c.rows(sql.event_get, (id,)))
        return Event(*rows[0]) if rows else None

    async def with_key(self, source: str, key: str) -> str | None:
        rows = await self._reader.run(lambda c: c.rows(sql.event_first, (source, key)))
        return rows[0][0] if rows else None

    async def with_prefix(self, prefix: str) -> list[str]:
        rows = await self._reader.run(lambda c: c.rows(sql.event_prefix, (prefix, f"{prefix}\U0010ffff")))
        return [row[0] for row in rows]

    async def find(self, wanted: EventFilter, after: str | None, limit: int) -> Page[Event]:
        """Newest first. A filter without an index scans a bounded number of rows, then returns a cursor."""
        before = int(after) if after else _NEWEST
        rows, more = await self._reader.run(lambda c: _find(c, wanted, before, limit))
        return Page([Event(*row) for row in rows], None if more is None else str(more))

    async def streams(self, after: str | None, limit: int) -> Page[StreamRow]:
        rows = await self._reader.run(lambda c: c.rows(sql.stream_page, (after or "", limit)))
        return Page([StreamRow(*row) for row in rows], rows[-1][0] if len(rows) == limit else None)

    async def stream(self, id: str) -> StreamRow | None:
        rows = await self._reader.run(lambda c: c.rows(sql.stream_get, (id,)))
        return StreamRow(*rows[0]) if rows else None

    async def read(self, stream: str, after_seq: int, limit: int) -> list[Event]:
        """In `seq` order. An event without a stream is a stream of one, under its own id."""
        rows = await self._reader.run(lambda c: _read(c, stream, after_seq, limit))
        if not rows and after_seq < 1:
            single = await self.get(stream)
            return [single] if single is not None and single.stream == stream else []
        return [Event(*row) for row in rows]

    async def read_many(self, places: Sequence[tuple[str, int]], limit: int, bytes_max: int) -> list[list[Event]]:
        def look(connection: Connection) -> list[list[Row]]:
            return [_read(connection, stream, after, limit, bytes_max) for stream, after in places]

        return [[Event(*row) for row in rows] for rows in await self._reader.run(look)]

    async def first_seq(self, stream: str) -> int | None:
        found: int | None = (await self._reader.run(lambda c: c.rows(sql.stream_first, (stream,))))[0][0]
        return found

    async def reroute(self, ids: Sequence[str], *, by: Actor | None = None) -> int:
        now_ms = self._clock.now_ms()

        def work(connection: Connection) -> int:
            count = unmatched = 0
            for id in ids:
                count += connection.run(sql.event_reroute, (id,))
                unmatched += connection.run(sql.event_rerouted, (id,))
            connection.run(sql.counts_add, (-count, -unmatched))
            if count:
                write_action(connection, by, now_ms, "route", events=some_of(ids))
            return count

        count = await self._writer.run(work)
        self._changed("events")
        return count


class _Append(BatchableWork[list[Appended]]):
    """The events of one caller."""

    def __init__(self, prepared: Sequence[tuple[NewEvent, str]], now_ms: int) -> None:
        self._prepared, self._now_ms = prepared, now_ms

    @classmethod
    def all_of(cls, connection: Connection, works: Sequence[_Append]) -> list[list[Appended]]:
        if len(works) == 1:
            return [append(connection, works[0]._prepared, works[0]._now_ms)]
        # The latest time: all are accepted by the same commit.
        prepared = [one for work in works for one in work._prepared]
        answers = iter(append(connection, prepared, max(work._now_ms for work in works)))
        return [list(islice(answers, len(work._prepared))) for work in works]


def with_ids(events: Sequence[NewEvent], now_ms: int, chance: Chance) -> list[tuple[NewEvent, str]]:
    """Each event with its own id or a new one. Random bytes are read once for all, since that is a system call."""
    entropy = chance.entropy(ENTROPY_BYTES * len(events))
    starts = range(0, len(entropy), ENTROPY_BYTES)
    return [
        (event, event.id or make_id("evt", now_ms, entropy[at : at + ENTROPY_BYTES]))
        for event, at in zip(events, starts, strict=True)
    ]


def append(connection: Connection, prepared: Sequence[tuple[NewEvent, str]], now_ms: int) -> list[Appended]:
    """Append inside a transaction that is already open: all events enter the table here."""
    if all(map(_is_plain, prepared)):
        return _append_plain(connection, prepared, now_ms)
    connection.many(sql.event_append, [door_row(event, id, now_ms) for event, id in prepared])
    return [_appended(connection, event, id) for event, id in prepared]


def door_row(event: NewEvent, id: str, now_ms: int) -> tuple[object, ...]:
    """The values of `event_append`, in its order."""
    return (
        id, event.type, event.payload.decode(), event.source, event.stream, event.timestamp or iso_time(now_ms),
        event.properties.decode(), event.dedup_key, event.to, event.not_before_ms, now_ms,
        event.digest if event.dedup_key is not None else None,
    )  # fmt: skip


def _is_plain(item: tuple[NewEvent, str]) -> bool:
    """Whether the door has nothing to check: no dedup key, no `not_before`, and an id that is certainly new."""
    event = item[0]
    return event.dedup_key is None and event.not_before_ms is None and event.id is None


def _append_plain(connection: Connection, prepared: Sequence[tuple[NewEvent, str]], now_ms: int) -> list[Appended]:
    """Insert many events with few statements: one for each stream, then one for many events."""
    next_seq: dict[str, int] = {}
    streams = [event.stream for event, _ in prepared if event.stream is not None]
    for stream, count in Counter(streams).items() if streams else ():
        extended = connection.rows(sql.stream_extend, (stream, count, now_ms))
        if not extended:
            raise StreamClosed(f"the stream {short_repr(stream)} is closed and takes no more events")
        next_seq[stream] = int(extended[0][0]) - count + 1
    rows, answers = [], []
    first = connection.rows(sql.event_number)
    number: int | None = first[0][0] if first else None
    for event, id in prepared:
        seq = 1
        if event.stream is not None:
            seq = next_seq[event.stream]
            next_seq[event.stream] += 1
        rows.append(
            (
                number, id, event.type, event.payload.decode(), event.source, event.stream, seq,
                event.timestamp or iso_time(now_ms), event.properties.decode(), event.to, now_ms,
            )
        )  # fmt: skip
        number = None
        answers.append(Appended(id, event.stream or id, seq))
    insert(connection, sql.event_append_plain, rows)
    return answers


def _appended(connection: Connection, event: NewEvent, id: str) -> Appended:
    """The result of an append: a new event with its own id, or the first one with the same dedup key."""
    first = [] if event.dedup_key is None else connection.rows(sql.event_first, (event.source, event.dedup_key))
    if first:  # the key may have been pruned; then the event is new
        first_id, stream, seq = first[0]
        return Appended(first_id, stream or first_id, seq, duplicate=first_id != id)
    if event.stream is None:
        return Appended(id, id, 1)
    return Appended(id, event.stream, connection.rows(sql.event_seq, (id,))[0][0])


class _Collect:
    """Collects matching rows until it has enough of them or has scanned `SCAN_MAX`."""

    def __init__(self, limit: int, wanted: EventFilter = _ANY, bytes_max: int = PAGE_BYTES_MAX) -> None:
        self._limit, self._wanted, self._bytes_max = limit, wanted, bytes_max
        self.rows: list[Row] = []
        self.last: Row | None = None
        self.full = False
        self._looked = self._bytes = 0

    def __call__(self, row: Row) -> bool:
        self._looked += 1
        self.last = row
        if is_wanted(self._wanted, row, properties=8):
            self.rows.append(row)
            self._bytes += event_bytes(row)
        self.full = len(self.rows) == self._limit or self._bytes >= self._bytes_max or self._looked == SCAN_MAX
        return not self.full


def _find(connection: Connection, wanted: EventFilter, before: int, limit: int) -> tuple[list[Row], int | None]:
    """The matching rows, and the position after them."""
    take, by_seq = _Collect(limit, wanted), pages_by_seq(wanted)
    if wanted.unmatched:
        connection.each(sql.event_page_unmatched, (before, SCAN_MAX), take)
    elif by_seq:
        connection.each(sql.event_page_stream, (wanted.stream, before, SCAN_MAX), take)
    else:
        connection.each(sql.event_page, (before, SCAN_MAX), take)
    if not take.full or take.last is None:
        return take.rows, None
    return take.rows, take.last[3] if by_seq else take.last[0]


def _read(
    connection: Connection, stream: str, after_seq: int, limit: int, bytes_max: int = PAGE_BYTES_MAX
) -> list[Row]:
    take = _Collect(limit, bytes_max=bytes_max)
    connection.each(sql.stream_read, (stream, after_seq, limit), take)
    return take.rows
