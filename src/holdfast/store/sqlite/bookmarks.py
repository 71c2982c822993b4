"""Bookmarks of transcripts on SQLite."""

from __future__ import annotations

from holdfast.domain.bookmark import Bookmark, bookmark_conflict
from holdfast.ports import Clock
from holdfast.store.sqlite.reader import Reader
from holdfast.store.sqlite.statements import sql
from holdfast.store.sqlite.writer import Writer


class SqliteBookmarks:
    def __init__(self, writer: Writer, reader: Reader, clock: Clock) -> None:
        self._writer, self._reader, self._clock = writer, reader, clock

    async def get(self, session: str, file: str) -> Bookmark | None:
        rows = await self._reader.run(lambda connection: connection.rows(sql.bookmark_get, (session, file)))
        return Bookmark(*rows[0]) if rows else None

    async def put(self, session: str, file: str, bookmark: Bookmark) -> None:
        values = (session, file, *bookmark, self._clock.now_ms())
        if not await self._writer.run(lambda connection: connection.run(sql.bookmark_put, values)):
            raise bookmark_conflict(session, bookmark)
