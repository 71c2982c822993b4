"""Readers' cursors on SQLite."""

from __future__ import annotations

from holdfast.domain.cursor import Cursor
from holdfast.domain.errors import NotFound
from holdfast.ports import Clock
from holdfast.store.roles.cursors import CursorState
from holdfast.store.sqlite.connection import Connection
from holdfast.store.sqlite.reader import Reader
from holdfast.store.sqlite.statements import sql
from holdfast.store.sqlite.writer import Writer


class SqliteCursors:
    def __init__(self, writer: Writer, reader: Reader, clock: Clock) -> None:
        self._writer, self._reader, self._clock = writer, reader, clock

    async def ensure(self, reader: str, stream: str, position: int = 0) -> Cursor:
        now_ms = self._clock.now_ms()

        def work(connection: Connection) -> Cursor:
            connection.run(sql.cursor_ensure, (reader, stream, position, now_ms))
            return Cursor(*connection.rows(sql.cursor_get, (reader, stream))[0])

        return await self._writer.run(work)

    async def get(self, reader: str, stream: str) -> Cursor | None:
        rows = await self._reader.run(lambda c: c.rows(sql.cursor_get, (reader, stream)))
        return Cursor(*rows[0]) if rows else None

    async def advance(self, reader: str, stream: str, position: int) -> Cursor:
        now_ms = self._clock.now_ms()

        def work(connection: Connection) -> Cursor:
            rows = connection.rows(sql.cursor_get, (reader, stream))
            if not rows:
                raise NotFound(f"reader {reader!r} has no cursor on {stream!r}")
            moved = Cursor(*rows[0]).advanced(position, now_ms)
            connection.run(sql.cursor_advance, (reader, stream, position, now_ms))
            return moved

        return await self._writer.run(work)

    async def of_stream(self, stream: str, limit: int) -> list[CursorState]:
        rows = await self._reader.run(lambda c: c.rows(sql.cursors_of_stream, (stream, limit)))
        return [CursorState(*row) for row in rows]

    async def expire(self, idle_since_ms: int, limit: int) -> list[Cursor]:
        now_ms = self._clock.now_ms()

        def work(connection: Connection) -> list[Cursor]:
            idle = [Cursor(*row) for row in connection.rows(sql.cursors_idle, (idle_since_ms, limit))]
            connection.many(sql.cursor_expire, [(now_ms, cursor.reader, cursor.stream) for cursor in idle])
            return idle

        return await self._writer.run(work, heavy=True)
