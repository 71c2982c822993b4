"""Files of messages on PostgreSQL."""

from __future__ import annotations

from holdfast.ports import Clock
from holdfast.store.postgres.pool import Pool
from holdfast.store.postgres.pooled_connection import PooledConnection
from holdfast.store.postgres.statements import sql


class PostgresBlobs:
    def __init__(self, pool: Pool, clock: Clock) -> None:
        self._pool, self._clock = pool, clock

    async def put(self, sha256: str, data: bytes) -> bool:
        now_ms = self._clock.now_ms()

        async def work(connection: PooledConnection) -> bool:
            known = await connection.run(sql.blob_keep, now_ms, sha256) > 0
            return not known and await connection.run(sql.blob_add, sha256, data, now_ms) > 0

        return await self._pool.run(work, repeatable=True)

    async def get(self, sha256: str) -> bytes | None:
        data = await self._pool.value(sql.blob_get, sha256)
        return None if data is None else bytes(data)

    async def has(self, sha256: str) -> bool:
        return bool(await self._pool.rows(sql.blob_has, sha256))
