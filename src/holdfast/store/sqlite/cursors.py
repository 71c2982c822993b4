"""The small roles on SQLite: readers' cursors, owners at work, tokens."""

from __future__ import annotations

import os

from holdfast.domain.cursor import Cursor
from holdfast.domain.errors import NotFound
from holdfast.ports import Clock
from holdfast.store.process_id import own_mark
from holdfast.store.roles.owners import Owner
from holdfast.store.roles.tokens import TokenRow
from holdfast.store.sqlite.connection import Connection
from holdfast.store.sqlite.reader import Reader
from holdfast.store.sqlite.statements import sql
from holdfast.store.sqlite.writer import Writer

_FORGET_OWNERS_MS = 24 * 3600 * 1000


class SqliteCursors:
    def __init__(self, writer: Writer, reader: Reader, clock: Clock) -> None:
        self._writer, self._reader, self._clock = writer, reader, clock

    async def ensure(self, reader: str, stream: str) -> Cursor:
        now_ms = self._clock.now_ms()

        def work(connection: Connection) -> Cursor:
            connection.run(sql.cursor_ensure, (reader, stream, now_ms))
            return Cursor(*connection.rows(sql.cursor_get, (reader, stream))[0])

        return await self._writer.run(work)

    async def get(self, reader: str, stream: str) -> Cursor | None:
        rows = await self._reader.run(lambda c: c.rows(sql.cursor_get, (reader, stream)))
        return Cursor(*rows[0]) if rows else None

    async def advance(self, reader: str, stream: str, position: int) -> Cursor:
        now_ms = self._clock.now_ms()

        def work(connection: Connection) -> Cursor:
            rows = connection.rows(sql.cursor_get, (reader, stream))
            if not rows:
                raise NotFound(f"reader {reader!r} has no cursor on {stream!r}")
            moved = Cursor(*rows[0]).advanced(position, now_ms)
            connection.run(sql.cursor_advance, (reader, stream, position, now_ms))
            return moved

        return await self._writer.run(work)


class SqliteOwners:
    """Who works on the file. Being the keeper is proven by the file lock; a fresh keeper's predecessors are dead."""

    def __init__(self, writer: Writer, clock: Clock, keeper: bool) -> None:
        self._writer, self._clock, self._keeper = writer, clock, keeper

    async def enlist(self) -> Owner:
        now_ms, boot_id, boot_ms = self._clock.now_ms(), self._clock.boot_id, self._clock.boot_ms()

        def work(connection: Connection) -> Owner:
            params = (os.getpid(), str(own_mark()), boot_id, now_ms)
            id = int(connection.rows(sql.owner_add, params)[0][0])
            unclean = False
            if self._keeper:
                unclean = connection.run(sql.owner_end_others, (now_ms, id)) > 0
                connection.run(sql.lease_reclaim, (boot_ms, boot_id, "[]"))
                connection.run(sql.owner_forget, (now_ms - _FORGET_OWNERS_MS,))
            free = connection.rows(sql.node_free) or connection.rows(sql.node_add)
            chain = str(free[0][0])
            connection.run(sql.node_take, (id, chain))
            connection.run(sql.owner_chain, (chain, id))
            return Owner(id, chain, unclean)

        return await self._writer.run(work)

    async def retire(self, owner: Owner) -> None:
        now_ms = self._clock.now_ms()
        await self._writer.run(lambda connection: connection.run(sql.owner_end, (now_ms, owner.id)))


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
