"""API tokens on SQLite."""

from __future__ import annotations

from holdfast.ports import Clock
from holdfast.store.roles.tokens import TokenRow
from holdfast.store.sqlite.reader import Reader
from holdfast.store.sqlite.statements import sql
from holdfast.store.sqlite.writer import Writer


class SqliteTokens:
    def __init__(self, writer: Writer, reader: Reader, clock: Clock) -> None:
        self._writer, self._reader, self._clock = writer, reader, clock

    async def add(self, id: str, name: str, scope: str, hash: str) -> None:
        now_ms = self._clock.now_ms()
        await self._writer.run(lambda connection: connection.run(sql.token_add, (id, name, scope, hash, now_ms)))

    async def scope_of(self, hash: str) -> str | None:
        rows = await self._reader.run(lambda c: c.rows(sql.token_scope, (hash,)))
        return str(rows[0][0]) if rows else None

    async def find(self, after: str, limit: int) -> list[TokenRow]:
        return [TokenRow(*row) for row in await self._reader.run(lambda c: c.rows(sql.token_find, (after, limit)))]

    async def revoke(self, id: str) -> bool:
        now_ms = self._clock.now_ms()
        return await self._writer.run(lambda connection: connection.run(sql.token_revoke, (now_ms, id)) > 0)
