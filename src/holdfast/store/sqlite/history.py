"""The history of counts on SQLite."""

from __future__ import annotations

import json
from collections.abc import Sequence

from holdfast.store.roles.history import ALL_HOURS, HOURS_MAX, MINUTES_MAX, ContractHour, Minute
from holdfast.store.sqlite.connection import Connection
from holdfast.store.sqlite.reader import Reader
from holdfast.store.sqlite.statements import sql
from holdfast.store.sqlite.writer import Writer


class SqliteHistory:
    def __init__(self, writer: Writer, reader: Reader) -> None:
        self._writer, self._reader = writer, reader

    async def add(self, minute: Minute) -> None:
        def work(connection: Connection) -> None:
            connection.run(sql.history_add, tuple(minute))
            connection.run(sql.history_trim, (minute.minute - MINUTES_MAX,))

        await self._writer.run(work, durable=False)

    async def since(self, minute: int) -> list[Minute]:
        rows = await self._reader.run(lambda connection: connection.rows(sql.history_since, (minute,)))
        return [Minute(*row) for row in rows]

    async def add_contracts(self, counts: Sequence[ContractHour]) -> None:
        def work(connection: Connection) -> None:
            for count in counts:
                connection.run(sql.contract_hour_add, tuple(count))
                connection.run(sql.contract_hour_add, tuple(count._replace(hour=ALL_HOURS)))
                connection.run(sql.contract_hour_trim, (count.contract, count.hour - HOURS_MAX))

        await self._writer.run(work, durable=False)

    async def of_contracts(self, contracts: Sequence[str], hour: int) -> list[ContractHour]:
        values = (json.dumps(list(contracts)), hour)
        rows = await self._reader.run(lambda connection: connection.rows(sql.contract_hours, values))
        return [ContractHour(*row) for row in rows]
