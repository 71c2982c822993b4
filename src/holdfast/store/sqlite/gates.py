"""Rates and breakers on SQLite."""

from __future__ import annotations

from holdfast.ports import Clock
from holdfast.store.base import PAGE_MAX, Gate
from holdfast.store.sqlite.reader import Reader
from holdfast.store.sqlite.statements import sql
from holdfast.store.sqlite.writer import Writer


class SqliteGates:
    def __init__(self, writer: Writer, reader: Reader, clock: Clock) -> None:
        self._writer, self._reader, self._clock = writer, reader, clock

    async def reserve(self, address: str, interval_us: int) -> int:
        values = (address, self._clock.now_ms() * 1000, interval_us)
        return int((await self._writer.run(lambda c: c.rows(sql.gate_reserve, values), durable=False))[0][0])

    async def open(self, after: str = "") -> list[Gate]:
        return [Gate(*row) for row in await self._reader.run(lambda c: c.rows(sql.gate_open, (after, PAGE_MAX)))]

    async def trip(self, address: str, cooldown_ms: int) -> Gate:
        values = (address, self._clock.now_ms(), cooldown_ms)
        return Gate(*(await self._writer.run(lambda c: c.rows(sql.gate_trip, values)))[0])

    async def probe(self, address: str, lease_ms: int) -> bool:
        values = (address, self._clock.now_ms(), lease_ms)
        return bool(await self._writer.run(lambda c: c.run(sql.gate_probe, values), durable=False))

    async def close(self, address: str) -> bool:
        return bool(await self._writer.run(lambda c: c.run(sql.gate_close, (address,))))
