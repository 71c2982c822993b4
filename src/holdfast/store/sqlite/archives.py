"""Which events are in which archive, on SQLite."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.ports import Clock
from holdfast.store.roles.archives import ArchivedRange, ArchiveRow, EventRange
from holdfast.store.rows import event_ranges, front_only
from holdfast.store.sqlite.connection import Connection, Row
from holdfast.store.sqlite.reader import Reader
from holdfast.store.sqlite.statements import sql
from holdfast.store.sqlite.writer import Writer

SPAN = 2000


class SqliteArchives:
    def __init__(self, writer: Writer, reader: Reader, clock: Clock) -> None:
        self._writer, self._reader, self._clock = writer, reader, clock

    async def archivable(self, before_ms: int, limit: int) -> list[EventRange]:
        now_ms = self._clock.now_ms()
        first, last = (await self._reader.run(lambda c: c.rows(sql.archive_span)))[0]
        found: list[Row] = []
        for start in range(first - 1, last, SPAN):
            values = (start, SPAN, before_ms, now_ms, limit - len(found))
            found += await self._reader.run(lambda c, values=values: c.rows(sql.archive_candidates, values))  # type: ignore[misc]
            if len(found) >= limit:
                break
        return await self._reader.run(lambda c: _from_front(c, found))

    async def record(self, archive: ArchiveRow, ranges: Sequence[EventRange]) -> bool:
        def work(connection: Connection) -> bool:
            connection.run(sql.archive_add, archive)
            for one in ranges:
                connection.run(sql.archived_add, (*one, archive.id))
                connection.run(sql.stream_archived, one)
            return True

        return await self._writer.run(work, heavy=True)

    async def all(self, after: str, limit: int) -> list[ArchiveRow]:
        return [ArchiveRow(*row) for row in await self._reader.run(lambda c: c.rows(sql.archive_page, (after, limit)))]

    async def holding(self, stream: str, after_seq: int, limit: int) -> list[ArchivedRange]:
        rows = await self._reader.run(lambda c: c.rows(sql.archived_of, (stream, after_seq, limit)))
        return [ArchivedRange(*row) for row in rows]


def _from_front(connection: Connection, found: Sequence[Row]) -> list[EventRange]:
    firsts = {}
    for stream in {str(row[1]) for row in found}:
        rows = connection.rows(sql.archive_first, (stream,))
        if rows:
            firsts[stream] = int(rows[0][0])
    return event_ranges(front_only(found, firsts))
