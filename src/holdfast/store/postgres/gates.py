"""Rates and breakers on PostgreSQL, on the database's clock: the only one that all processes share."""

from __future__ import annotations

from collections.abc import Callable

from holdfast.domain.quota import MINUTE_MS, quota_wait_ms
from holdfast.store.postgres.pool import Pool
from holdfast.store.postgres.pooled_connection import PooledConnection
from holdfast.store.postgres.statements import sql
from holdfast.store.roles.gates import Gate, Reservation
from holdfast.store.roles.owners import Owner
from holdfast.store.roles.page import PAGE_MAX


class PostgresGates:
    """`now_ms` is None, except for tests that bring a clock of their own."""

    def __init__(self, pool: Pool, now_ms: Callable[[], int | None]) -> None:
        self._pool, self._now_ms = pool, now_ms

    async def reserve(self, address: str, interval_us: int, ahead_us: int) -> Reservation:
        now_ms = self._now_ms()

        async def work(connection: PooledConnection) -> Reservation:
            if reserved := await connection.rows(sql.gate_reserve, now_ms, address, interval_us, ahead_us):
                return Reservation(int(reserved[0][0]), reserved=True)
            return Reservation(int(await connection.value(sql.gate_wait, now_ms, address)), reserved=False)

        return await self._pool.run(work, durable=False)

    async def open(self, after: str = "") -> list[Gate]:
        return [Gate(*row) for row in await self._pool.rows(sql.gate_open, after, PAGE_MAX)]

    async def trip(self, address: str, cooldown_ms: int) -> Gate:
        values = (self._now_ms(), address, cooldown_ms)
        return Gate(*(await self._pool.run(lambda connection: connection.rows(sql.gate_trip, *values)))[0])

    async def probe(self, owner: Owner, address: str, lease_ms: int) -> bool:
        values = (self._now_ms(), address, lease_ms, owner.id)
        return bool(await self._pool.run(lambda connection: connection.run(sql.gate_probe, *values), durable=False))

    async def close(self, address: str) -> bool:
        return bool(await self._pool.run(lambda connection: connection.run(sql.gate_close, address)))

    async def take(self, name: str, limit: int) -> int:
        async def work(connection: PooledConnection) -> int:
            now_ms = int(await connection.value(sql.quota_lock, self._now_ms(), name))
            minute = now_ms // MINUTE_MS
            await connection.run(sql.quota_forget, name, minute)
            ((taken, first_minute),) = await connection.rows(sql.quota_count, name)
            wait_ms = quota_wait_ms(taken, first_minute, limit, now_ms)
            if not wait_ms:
                await connection.run(sql.quota_take, name, minute)
            return wait_ms

        return await self._pool.run(work, durable=False)
