"""Contracts on SQLite. Every change bumps a version that the router checks in its own transaction."""

from __future__ import annotations

from collections.abc import Callable

from holdfast.domain.contract import Contract
from holdfast.ports import Clock
from holdfast.store.base import QueueRow
from holdfast.store.memo import ContractMemo
from holdfast.store.rows import contract_text, to_contract, to_queue_row
from holdfast.store.sqlite.connection import Connection
from holdfast.store.sqlite.reader import Reader
from holdfast.store.sqlite.statements import sql
from holdfast.store.sqlite.writer import Writer


class SqliteContracts:
    def __init__(self, writer: Writer, reader: Reader, clock: Clock, changed: Callable[[str], None]) -> None:
        self._writer, self._reader, self._clock, self._changed = writer, reader, clock, changed
        self._memo = ContractMemo()

    async def put(self, contract: Contract, secret: str | None, *, keep: bool = False) -> None:
        now_ms = self._clock.now_ms()

        def work(connection: Connection) -> None:
            known = connection.rows(sql.contract_get, (contract.id,)) if keep else []
            active = bool(known[0][2]) if known else contract.active
            created = known[0][4] if known else contract.created_at_ms or now_ms
            row = (contract.id, contract_text(contract), int(active), contract.source, created, now_ms)
            connection.run(sql.contract_put, row)
            if not keep or secret is not None:
                connection.run(sql.secret_clear, (contract.id,))
            if secret is not None:
                connection.run(sql.secret_add, (contract.id, secret, now_ms))
            address = contract.address
            connection.run(sql.queue_put, (contract.id, address.text, address.kind, int(not active), now_ms))
            connection.run(sql.contract_bump)

        await self._writer.run(work)
        self._changed("contracts")

    async def get(self, id: str) -> Contract | None:
        rows = await self._reader.run(lambda c: c.rows(sql.contract_get, (id,)))
        return to_contract(rows[0]) if rows else None

    async def all(self, inactive: bool = False) -> list[Contract]:
        rows = await self._reader.run(lambda c: c.rows(sql.contract_all))
        return [contract for contract in self._memo.read(rows) if inactive or contract.active]

    async def remove(self, id: str) -> bool:
        now_ms = self._clock.now_ms()

        def work(connection: Connection) -> bool:
            if not connection.run(sql.contract_remove, (now_ms, now_ms, id)):
                return False
            connection.run(sql.secret_clear, (id,))
            connection.run(sql.queue_park, (1, id))
            connection.run(sql.contract_bump)
            return True

        removed = await self._writer.run(work)
        self._changed("contracts")
        return removed

    async def set_active(self, id: str, active: bool) -> bool:
        now_ms = self._clock.now_ms()

        def work(connection: Connection) -> bool:
            if not connection.run(sql.contract_activate, (int(active), now_ms, id, int(active))):
                return False
            connection.run(sql.queue_park, (int(not active), id))
            connection.run(sql.contract_bump)
            return True

        done = await self._writer.run(work)
        self._changed("contracts")
        self._changed("deliveries")
        return done

    async def secrets(self, id: str) -> list[str]:
        return [row[0] for row in await self._reader.run(lambda c: c.rows(sql.secret_all, (id,)))]

    async def version(self) -> int:
        return int((await self._reader.run(lambda c: c.rows(sql.contract_version)))[0][0])

    async def queues(self) -> list[QueueRow]:
        rows = await self._reader.run(lambda c: c.rows(sql.queue_all))
        return [to_queue_row(row) for row in rows]
