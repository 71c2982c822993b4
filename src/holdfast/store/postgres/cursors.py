"""Readers' cursors on PostgreSQL."""

from __future__ import annotations

from holdfast.domain.cursor import Cursor
from holdfast.domain.errors import NotFound
from holdfast.ports import Clock
from holdfast.store.postgres.pool import Pool
from holdfast.store.postgres.pooled_connection import PooledConnection
from holdfast.store.postgres.statements import sql
from holdfast.store.roles.cursors import CursorState


class PostgresCursors:
    def __init__(self, pool: Pool, clock: Clock) -> None:
        self._pool, self._clock = pool, clock

    async def ensure(self, reader: str, stream: str, position: int = 0) -> Cursor:
        now_ms = self._clock.now_ms()

        async def work(connection: PooledConnection) -> Cursor:
            await connection.run(sql.cursor_ensure, reader, stream, position, now_ms)
            return Cursor(*(await connection.rows(sql.cursor_get, reader, stream))[0])

        return await self._pool.run(work, repeatable=True)

    async def get(self, reader: str, stream: str) -> Cursor | None:
        rows = await self._pool.rows(sql.cursor_get, reader, stream)
        return Cursor(*rows[0]) if rows else None

    async def advance(self, reader: str, stream: str, position: int) -> Cursor:
        now_ms = self._clock.now_ms()

        async def work(connection: PooledConnection) -> Cursor:
            await connection.run(sql.cursor_advance, reader, stream, position, now_ms)
            rows = await connection.rows(sql.cursor_get, reader, stream)
            if not rows:
                raise NotFound(f"reader {reader!r} has no cursor on {stream!r}")
            return Cursor(*rows[0]).advanced(position, now_ms)

        return await self._pool.run(work, repeatable=True)

    async def of_stream(self, stream: str, limit: int) -> list[CursorState]:
        return [CursorState(*row) for row in await self._pool.rows(sql.cursors_of_stream, stream, limit)]

    async def expire(self, idle_since_ms: int, limit: int) -> list[Cursor]:
        now_ms = self._clock.now_ms()
        rows = await self._pool.run(
            lambda connection: connection.rows(sql.cursors_expire, now_ms, idle_since_ms, limit)
        )
        return [Cursor(*row) for row in rows]
