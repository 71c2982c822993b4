"""The small roles on PostgreSQL: readers' cursors, owners at work, tokens."""

from __future__ import annotations

import os
import socket

from holdfast.domain.cursor import Cursor
from holdfast.domain.errors import NotFound
from holdfast.ports import Clock
from holdfast.store.postgres.liveness import Wire
from holdfast.store.postgres.pool import Pool
from holdfast.store.postgres.pooled_connection import Session
from holdfast.store.postgres.statements import sql
from holdfast.store.process_id import own_mark
from holdfast.store.roles.owners import Owner
from holdfast.store.roles.tokens import TokenRow

_FORGET_OWNERS_MS = 24 * 3600 * 1000


class PostgresCursors:
    def __init__(self, pool: Pool, clock: Clock) -> None:
        self._pool, self._clock = pool, clock

    async def ensure(self, reader: str, stream: str) -> Cursor:
        now_ms = self._clock.now_ms()

        async def work(session: Session) -> Cursor:
            await session.run(sql.cursor_ensure, reader, stream, now_ms)
            return Cursor(*(await session.rows(sql.cursor_get, reader, stream))[0])

        return await self._pool.run(work, repeatable=True)

    async def get(self, reader: str, stream: str) -> Cursor | None:
        rows = await self._pool.rows(sql.cursor_get, reader, stream)
        return Cursor(*rows[0]) if rows else None

    async def advance(self, reader: str, stream: str, position: int) -> Cursor:
        now_ms = self._clock.now_ms()

        async def work(session: Session) -> Cursor:
            await session.run(sql.cursor_advance, reader, stream, position, now_ms)
            rows = await session.rows(sql.cursor_get, reader, stream)
            if not rows:
                raise NotFound(f"reader {reader!r} has no cursor on {stream!r}")
            return Cursor(*rows[0]).advanced(position, now_ms)

        return await self._pool.run(work, repeatable=True)


class PostgresOwners:
    """Who works on this store. An owner lives as long as its wire holds its lock."""

    def __init__(self, pool: Pool, wire: Wire, clock: Clock) -> None:
        self._pool, self._wire, self._clock = pool, wire, clock

    async def enlist(self) -> Owner:
        await self._wire.lay()
        now_ms, who = self._clock.now_ms(), (os.getpid(), socket.gethostname(), str(own_mark()))

        async def work(session: Session) -> Owner:
            id = int(await session.value(sql.owner_add, *who, now_ms, self._wire.silent))
            await self._wire.hold(id)  # before anybody can see the row and find its lock free
            unclean = await session.run(sql.owner_end_others, now_ms, id) > 0
            await session.run(sql.owner_forget, now_ms - _FORGET_OWNERS_MS)
            chain = await session.value(sql.node_free)
            while chain is None:
                chain = await session.value(sql.node_add)
            await session.run(sql.node_take, id, chain)
            await session.run(sql.owner_chain, chain, id)
            return Owner(id, chain, unclean)

        return await self._pool.run(work)

    async def retire(self, owner: Owner) -> None:
        now_ms = self._clock.now_ms()
        await self._pool.run(lambda session: session.run(sql.owner_end, now_ms, owner.id), repeatable=True)
        await self._wire.free(owner.id)


class PostgresTokens:
    def __init__(self, pool: Pool, clock: Clock) -> None:
        self._pool, self._clock = pool, clock

    async def add(self, id: str, name: str, scope: str, hash: str) -> None:
        now_ms = self._clock.now_ms()
        await self._pool.run(lambda session: session.run(sql.token_add, id, name, scope, hash, now_ms))

    async def scope_of(self, hash: str) -> str | None:
        scope = await self._pool.value(sql.token_scope, hash)
        return None if scope is None else str(scope)

    async def find(self, after: str, limit: int) -> list[TokenRow]:
        return [TokenRow(*row) for row in await self._pool.rows(sql.token_find, after, limit)]

    async def revoke(self, id: str) -> bool:
        now_ms = self._clock.now_ms()
        return await self._pool.run(lambda session: session.run(sql.token_revoke, now_ms, id)) > 0
