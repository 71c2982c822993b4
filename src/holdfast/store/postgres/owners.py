"""The processes that work on a store, on PostgreSQL."""

from __future__ import annotations

import os
import socket

from holdfast.ports import Clock
from holdfast.store.postgres.liveness import Liveness
from holdfast.store.postgres.pool import Pool
from holdfast.store.postgres.pooled_connection import PooledConnection
from holdfast.store.postgres.statements import sql
from holdfast.store.process_id import own_process_id
from holdfast.store.roles.owners import Owner, WorkingOwner

_FORGET_OWNERS_MS = 24 * 3600 * 1000


class PostgresOwners:
    """An owner counts as alive while its liveness connection holds its lock."""

    def __init__(self, pool: Pool, liveness: Liveness, clock: Clock) -> None:
        self._pool, self._liveness, self._clock = pool, liveness, clock

    async def register(self) -> Owner:
        await self._liveness.connect()
        now_ms, process = self._clock.now_ms(), (os.getpid(), socket.gethostname(), str(own_process_id()))

        async def work(connection: PooledConnection) -> Owner:
            id = int(await connection.value(sql.owner_add, *process, now_ms, self._liveness.silent))
            await self._liveness.hold(id)  # before others can see the row and find its lock free
            unclean = await connection.run(sql.owner_end_others, now_ms, id) > 0
            await connection.run(sql.owner_forget, now_ms - _FORGET_OWNERS_MS)
            chain = await connection.value(sql.node_free)
            while chain is None:
                chain = await connection.value(sql.node_add)
            await connection.run(sql.node_take, id, chain)
            await connection.run(sql.owner_chain, chain, id)
            return Owner(id, chain, unclean)

        return await self._pool.run(work)

    async def working(self, limit: int) -> list[WorkingOwner]:
        return [WorkingOwner(*row) for row in await self._pool.rows(sql.owners_working, limit)]

    async def retire(self, owner: Owner) -> None:
        now_ms = self._clock.now_ms()
        await self._pool.run(lambda connection: connection.run(sql.owner_end, now_ms, owner.id), repeatable=True)
        await self._liveness.free(owner.id)
