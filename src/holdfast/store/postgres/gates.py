"""Rates and breakers on PostgreSQL, on the database's clock: the only one that all processes share."""

from __future__ import annotations

from collections.abc import Callable

from holdfast.store.base import PAGE_MAX, Gate
from holdfast.store.postgres.pool import Pool
from holdfast.store.postgres.statements import sql


class PostgresGates:
    """`now_ms` is None, except for tests that bring a clock of their own."""

    def __init__(self, pool: Pool, now_ms: Callable[[], int | None]) -> None:
        self._pool, self._now_ms = pool, now_ms

    async def reserve(self, address: str, interval_us: int) -> int:
        values = (self._now_ms(), address, interval_us)
        return int(await self._pool.run(lambda session: session.value(sql.gate_reserve, *values), durable=False))

    async def open(self, after: str = "") -> list[Gate]:
        return [Gate(*row) for row in await self._pool.rows(sql.gate_open, after, PAGE_MAX)]

    async def trip(self, address: str, cooldown_ms: int) -> Gate:
        values = (self._now_ms(), address, cooldown_ms)
        return Gate(*(await self._pool.run(lambda session: session.rows(sql.gate_trip, *values)))[0])

    async def probe(self, address: str, lease_ms: int) -> bool:
        values = (self._now_ms(), address, lease_ms)
        return bool(await self._pool.run(lambda session: session.run(sql.gate_probe, *values), durable=False))

    async def close(self, address: str) -> bool:
        return bool(await self._pool.run(lambda session: session.run(sql.gate_close, address)))
