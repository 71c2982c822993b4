"""Rates and breakers on SQLite."""

from __future__ import annotations

from holdfast.domain.quota import MINUTE_MS, quota_wait_ms
from holdfast.ports import Clock
from holdfast.store.roles.gates import Gate, Reservation
from holdfast.store.roles.owners import Owner
from holdfast.store.roles.page import PAGE_MAX
from holdfast.store.sqlite.connection import Connection
from holdfast.store.sqlite.reader import Reader
from holdfast.store.sqlite.statements import sql
from holdfast.store.sqlite.writer import Writer


class SqliteGates:
    def __init__(self, writer: Writer, reader: Reader, clock: Clock) -> None:
        self._writer, self._reader, self._clock = writer, reader, clock

    async def reserve(self, address: str, interval_us: int, ahead_us: int) -> Reservation:
        now_us = self._clock.now_ms() * 1000

        def work(connection: Connection) -> Reservation:
            if reserved := connection.rows(sql.gate_reserve, (address, now_us, interval_us, ahead_us)):
                return Reservation(int(reserved[0][0]), reserved=True)
            return Reservation(int(connection.rows(sql.gate_wait, (address, now_us))[0][0]), reserved=False)

        return await self._writer.run(work, durable=False)

    async def open(self, after: str = "") -> list[Gate]:
        return [Gate(*row) for row in await self._reader.run(lambda c: c.rows(sql.gate_open, (after, PAGE_MAX)))]

    async def trip(self, address: str, cooldown_ms: int) -> Gate:
        values = (address, self._clock.now_ms(), cooldown_ms)
        return Gate(*(await self._writer.run(lambda c: c.rows(sql.gate_trip, values)))[0])

    async def probe(self, owner: Owner, address: str, lease_ms: int) -> bool:
        values = (address, self._clock.now_ms(), lease_ms, owner.id, self._clock.boot_id)
        return bool(await self._writer.run(lambda c: c.run(sql.gate_probe, values), durable=False))

    async def close(self, address: str) -> bool:
        return bool(await self._writer.run(lambda c: c.run(sql.gate_close, (address,))))

    async def take(self, name: str, limit: int) -> int:
        now_ms = self._clock.now_ms()
        minute = now_ms // MINUTE_MS

        def work(connection: Connection) -> int:
            connection.run(sql.quota_forget, (name, minute))
            taken, first_minute = connection.rows(sql.quota_count, (name,))[0]
            wait_ms = quota_wait_ms(taken, first_minute, limit, now_ms)
            if not wait_ms:
                connection.run(sql.quota_take, (name, minute))
            return wait_ms

        return await self._writer.run(work, durable=False)
