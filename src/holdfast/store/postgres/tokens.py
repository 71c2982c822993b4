"""API tokens on PostgreSQL."""

from __future__ import annotations

from holdfast.ports import Clock
from holdfast.store.postgres.pool import Pool
from holdfast.store.postgres.statements import sql
from holdfast.store.roles.tokens import TokenRow


class PostgresTokens:
    def __init__(self, pool: Pool, clock: Clock) -> None:
        self._pool, self._clock = pool, clock

    async def add(self, id: str, name: str, scope: str, hash: str) -> None:
        now_ms = self._clock.now_ms()
        await self._pool.run(lambda connection: connection.run(sql.token_add, id, name, scope, hash, now_ms))

    async def scope_of(self, hash: str) -> str | None:
        scope = await self._pool.value(sql.token_scope, hash)
        return None if scope is None else str(scope)

    async def find(self, after: str, limit: int) -> list[TokenRow]:
        return [TokenRow(*row) for row in await self._pool.rows(sql.token_find, after, limit)]

    async def revoke(self, id: str) -> bool:
        now_ms = self._clock.now_ms()
        return await self._pool.run(lambda connection: connection.run(sql.token_revoke, now_ms, id)) > 0
