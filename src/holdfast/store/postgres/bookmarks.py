"""Bookmarks of transcripts on PostgreSQL."""

from __future__ import annotations

from holdfast.domain.bookmark import Bookmark, bookmark_conflict
from holdfast.ports import Clock
from holdfast.store.postgres.pool import Pool
from holdfast.store.postgres.statements import sql


class PostgresBookmarks:
    def __init__(self, pool: Pool, clock: Clock) -> None:
        self._pool, self._clock = pool, clock

    async def get(self, session: str, file: str) -> Bookmark | None:
        rows = await self._pool.rows(sql.bookmark_get, session, file)
        return Bookmark(*rows[0]) if rows else None

    async def put(self, session: str, file: str, bookmark: Bookmark) -> None:
        values = (session, file, *bookmark, self._clock.now_ms())
        if not await self._pool.run(lambda connection: connection.run(sql.bookmark_put, *values), repeatable=True):
            raise bookmark_conflict(session, bookmark)
