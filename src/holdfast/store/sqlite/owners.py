"""The processes that work on a store, on SQLite."""

from __future__ import annotations

import os
import socket

from holdfast.ports import Clock
from holdfast.store.process_id import is_running, own_process_id, parse_process_id
from holdfast.store.roles.owners import Owner, WorkingOwner
from holdfast.store.sqlite.connection import Connection, Row
from holdfast.store.sqlite.reader import Reader
from holdfast.store.sqlite.ready_queue import SqliteReadyQueue
from holdfast.store.sqlite.statements import sql
from holdfast.store.sqlite.writer import Writer

_FORGET_OWNERS_MS = 24 * 3600 * 1000


class SqliteOwners:
    """The file lock proves that this process is the keeper, so a new keeper knows that earlier keepers are dead."""

    def __init__(self, writer: Writer, reader: Reader, ready: SqliteReadyQueue, clock: Clock, keeper: bool) -> None:
        self._writer, self._reader, self._ready, self._clock, self._keeper = writer, reader, ready, clock, keeper

    async def register(self) -> Owner:
        now_ms, boot_id, boot_ms = self._clock.now_ms(), self._clock.boot_id, self._clock.boot_ms()

        def work(connection: Connection) -> Owner:
            params = (os.getpid(), str(own_process_id()), boot_id, now_ms)
            id = int(connection.rows(sql.owner_add, params)[0][0])
            unclean = False
            if self._keeper:
                unclean = connection.run(sql.owner_end_others, (now_ms, id)) > 0
                self._ready.reclaim(connection, boot_ms)
                connection.run(sql.owner_forget, (now_ms - _FORGET_OWNERS_MS,))
            free = connection.rows(sql.node_free) or connection.rows(sql.node_add)
            chain = str(free[0][0])
            connection.run(sql.node_take, (id, chain))
            connection.run(sql.owner_chain, (chain, id))
            return Owner(id, chain, unclean)

        return await self._writer.run(work)

    async def working(self, limit: int) -> list[WorkingOwner]:
        now_ms = self._clock.now_ms()
        rows = await self._reader.run(lambda connection: connection.rows(sql.owners_working, (limit,)))
        return [_working(row, now_ms) for row in rows]

    async def retire(self, owner: Owner) -> None:
        now_ms = self._clock.now_ms()
        await self._writer.run(lambda connection: connection.run(sql.owner_end, (now_ms, owner.id)))


def _working(row: Row, now_ms: int) -> WorkingOwner:
    """All of them are processes of this machine. A process that runs shows a sign of life; else none is known."""
    id, process_id, pid, chain, started_ms, active, deliveries, streams = row
    runs = active and is_running(pid, parse_process_id(process_id))
    seen_ms = now_ms if runs else None
    return WorkingOwner(id, socket.gethostname(), pid, chain, started_ms, seen_ms, bool(runs), deliveries, streams)
