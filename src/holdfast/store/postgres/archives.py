"""Which events are in which archive, on PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.ports import Clock
from holdfast.store.postgres.pool import Pool
from holdfast.store.postgres.pooled_connection import PooledConnection, Row
from holdfast.store.postgres.statements import sql
from holdfast.store.roles.archives import ArchivedRange, ArchiveRow, EventRange
from holdfast.store.rows import event_ranges, front_only

SPAN = 2000


class _AlreadyArchived(Exception):
    """Another process archived some of the events."""


class PostgresArchives:
    def __init__(self, pool: Pool, clock: Clock) -> None:
        self._pool, self._clock = pool, clock

    async def archivable(self, before_ms: int, limit: int) -> list[EventRange]:
        now_ms = self._clock.now_ms()
        ((first, last),) = await self._pool.rows(sql.archive_span)
        found: list[Row] = []
        for start in range(first - 1, last, SPAN):
            found += await self._pool.rows(sql.archive_candidates, start, SPAN, before_ms, now_ms, limit - len(found))
            if len(found) >= limit:
                break
        streams = sorted({row[1] for row in found})
        firsts = dict(await self._pool.rows(sql.archive_first, streams)) if streams else {}
        return event_ranges(front_only(found, firsts))

    async def record(self, archive: ArchiveRow, ranges: Sequence[EventRange]) -> bool:
        columns = [list(column) for column in zip(*ranges, strict=True)]

        async def work(connection: PooledConnection) -> None:
            if await connection.run(sql.stream_archived, *columns) < len(ranges):
                raise _AlreadyArchived
            await connection.run(sql.archive_add, *archive)
            await connection.run(sql.archived_add, *columns, archive.id)

        try:
            await self._pool.run(work)
        except _AlreadyArchived:
            return False
        return True

    async def all(self, after: str, limit: int) -> list[ArchiveRow]:
        return [ArchiveRow(*row) for row in await self._pool.rows(sql.archive_page, after, limit)]

    async def holding(self, stream: str, after_seq: int, limit: int) -> list[ArchivedRange]:
        return [ArchivedRange(*row) for row in await self._pool.rows(sql.archived_of, stream, after_seq, limit)]
