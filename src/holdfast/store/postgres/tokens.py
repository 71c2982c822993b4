"""API tokens on PostgreSQL."""

from __future__ import annotations

from holdfast.domain.scopes import TokenScope, known_scopes
from holdfast.ports import Clock
from holdfast.store.postgres.pool import Pool
from holdfast.store.postgres.pooled_connection import PooledConnection
from holdfast.store.postgres.receipts import write_action
from holdfast.store.postgres.statements import sql
from holdfast.store.roles.owners import Actor
from holdfast.store.roles.tokens import TokenRow


class PostgresTokens:
    def __init__(self, pool: Pool, clock: Clock) -> None:
        self._pool, self._clock = pool, clock

    async def add(self, id: str, name: str, scope: str, hash: str, *, by: Actor | None = None) -> None:
        now_ms = self._clock.now_ms()

        async def work(connection: PooledConnection) -> None:
            await connection.run(sql.token_add, id, name, scope, hash, now_ms)
            await write_action(connection, by, now_ms, "token.create", token=id, scope=scope)

        await self._pool.run(work)

    async def scope_of(self, hash: str) -> TokenScope | None:
        rows = await self._pool.rows(sql.token_scope, hash)
        return TokenScope(rows[0][0], known_scopes(rows[0][1])) if rows else None

    async def find(self, after: str, limit: int) -> list[TokenRow]:
        return [TokenRow(*row) for row in await self._pool.rows(sql.token_find, after, limit)]

    async def revoke(self, id: str, *, by: Actor | None = None) -> bool:
        now_ms = self._clock.now_ms()

        async def work(connection: PooledConnection) -> bool:
            if not await connection.run(sql.token_revoke, now_ms, id):
                return False
            await write_action(connection, by, now_ms, "token.revoke", token=id)
            return True

        return await self._pool.run(work)
