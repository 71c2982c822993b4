"""The history of counts on PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.store.postgres.pool import Pool
from holdfast.store.postgres.pooled_connection import PooledConnection
from holdfast.store.postgres.statements import sql
from holdfast.store.roles.history import ALL_HOURS, HOURS_MAX, MINUTES_MAX, ContractHour, Minute


class PostgresHistory:
    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def add(self, minute: Minute) -> None:
        async def work(connection: PooledConnection) -> None:
            await connection.run(sql.history_add, *minute)
            await connection.run(sql.history_trim, minute.minute - MINUTES_MAX)

        await self._pool.run(work, durable=False)

    async def since(self, minute: int) -> list[Minute]:
        return [Minute(*row) for row in await self._pool.rows(sql.history_since, minute)]

    async def add_contracts(self, counts: Sequence[ContractHour]) -> None:
        async def work(connection: PooledConnection) -> None:
            for count in sorted(counts):  # in one order, so that two processes do not wait for each other in a circle
                await connection.run(sql.contract_hour_add, *count)
                await connection.run(sql.contract_hour_add, *count._replace(hour=ALL_HOURS))
                await connection.run(sql.contract_hour_trim, count.contract, count.hour - HOURS_MAX)

        await self._pool.run(work, durable=False)

    async def of_contracts(self, contracts: Sequence[str], hour: int) -> list[ContractHour]:
        return [ContractHour(*row) for row in await self._pool.rows(sql.contract_hours, list(contracts), hour)]
