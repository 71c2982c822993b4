"""Contracts on PostgreSQL. Every change bumps a version that the router checks in its own transaction."""

from __future__ import annotations

from collections.abc import Callable

from holdfast.domain.contract import Contract
from holdfast.ports import Clock
from holdfast.store.base import QueueRow
from holdfast.store.postgres.pool import Pool
from holdfast.store.postgres.session import Session
from holdfast.store.postgres.statements import sql
from holdfast.store.rows import contract_text, to_contract, to_queue_row


class PostgresContracts:
    def __init__(self, pool: Pool, clock: Clock, changed: Callable[[str], None]) -> None:
        self._pool, self._clock, self._changed = pool, clock, changed

    async def put(self, contract: Contract, secret: str | None, *, keep: bool = False) -> None:
        await self._pool.opened()
        now_ms = self._clock.now_ms()

        async def work(session: Session) -> None:
            known = await session.rows(sql.contract_get, contract.id) if keep else []
            active = bool(known[0][2]) if known else contract.active
            created = known[0][4] if known else contract.created_at_ms or now_ms
            await session.run(
                sql.contract_put, contract.id, contract_text(contract), active, contract.source, created, now_ms
            )
            if not keep or secret is not None:
                await session.run(sql.secret_clear, contract.id)
            if secret is not None:
                await session.run(sql.secret_add, contract.id, secret, now_ms)
            address = contract.address
            await session.run(sql.queue_put, contract.id, address.text, address.kind, not active, now_ms)
            await session.run(sql.contract_bump)

        await self._pool.run(work, repeatable=True)
        self._changed("contracts")

    async def get(self, id: str) -> Contract | None:
        rows = await self._pool.rows(sql.contract_get, id)
        return to_contract(rows[0]) if rows else None

    async def all(self, inactive: bool = False) -> list[Contract]:
        rows = await self._pool.rows(sql.contract_all)
        return [to_contract(row) for row in rows if inactive or row[2]]

    async def remove(self, id: str) -> bool:
        now_ms = self._clock.now_ms()

        async def work(session: Session) -> bool:
            if not await session.run(sql.contract_remove, now_ms, id):
                return False
            await session.run(sql.secret_clear, id)
            await session.run(sql.queue_park, True, id)
            await session.run(sql.contract_bump)
            return True

        removed = await self._pool.run(work)
        self._changed("contracts")
        return removed

    async def set_active(self, id: str, active: bool) -> bool:
        now_ms = self._clock.now_ms()

        async def work(session: Session) -> bool:
            if not await session.run(sql.contract_activate, active, now_ms, id):
                return False
            await session.run(sql.queue_park, not active, id)
            await session.run(sql.contract_bump)
            return True

        done = await self._pool.run(work)
        self._changed("contracts")
        self._changed("deliveries")
        return done

    async def secrets(self, id: str) -> list[str]:
        return [row[0] for row in await self._pool.rows(sql.secret_all, id)]

    async def version(self) -> int:
        return int(await self._pool.value(sql.contract_version))

    async def queues(self) -> list[QueueRow]:
        return [to_queue_row(row) for row in await self._pool.rows(sql.queue_all)]
