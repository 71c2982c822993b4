"""API tokens on SQLite."""

from __future__ import annotations

from holdfast.domain.scopes import TokenScope, known_scopes
from holdfast.ports import Clock
from holdfast.store.roles.owners import Actor
from holdfast.store.roles.tokens import TokenRow
from holdfast.store.sqlite.connection import Connection
from holdfast.store.sqlite.reader import Reader
from holdfast.store.sqlite.receipts import write_action
from holdfast.store.sqlite.statements import sql
from holdfast.store.sqlite.writer import Writer


class SqliteTokens:
    def __init__(self, writer: Writer, reader: Reader, clock: Clock) -> None:
        self._writer, self._reader, self._clock = writer, reader, clock

    async def add(self, id: str, name: str, scope: str, hash: str, *, by: Actor | None = None) -> None:
        now_ms = self._clock.now_ms()

        def work(connection: Connection) -> None:
            connection.run(sql.token_add, (id, name, scope, hash, now_ms))
            write_action(connection, by, now_ms, "token.create", token=id, scope=scope)

        await self._writer.run(work)

    async def scope_of(self, hash: str) -> TokenScope | None:
        rows = await self._reader.run(lambda c: c.rows(sql.token_scope, (hash,)))
        return TokenScope(rows[0][0], known_scopes(rows[0][1])) if rows else None

    async def find(self, after: str, limit: int) -> list[TokenRow]:
        return [TokenRow(*row) for row in await self._reader.run(lambda c: c.rows(sql.token_find, (after, limit)))]

    async def revoke(self, id: str, *, by: Actor | None = None) -> bool:
        now_ms = self._clock.now_ms()

        def work(connection: Connection) -> bool:
            if not connection.run(sql.token_revoke, (now_ms, id)):
                return False
            write_action(connection, by, now_ms, "token.revoke", token=id)
            return True

        return await self._writer.run(work)
