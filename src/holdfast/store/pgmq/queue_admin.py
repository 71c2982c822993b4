"""Moves the ready queue of a PostgreSQL store into pgmq and back, and repairs what other programs removed there.

The queue is always called `ready` in the store's schema. It is a table, or a view of a queue of pgmq. A move takes the
queue's lock, copies the rows and changes what the name means, in one transaction: statements that waited for the lock
find the new queue, and no process has to know.
"""

from __future__ import annotations

from importlib.util import find_spec

from holdfast.domain.errors import BadConfig
from holdfast.domain.extras import install_command
from holdfast.ports import Clock
from holdfast.store.pgmq.statements import for_queue, queue_name, sql
from holdfast.store.postgres.migrate import replace_views
from holdfast.store.postgres.pool import Pool
from holdfast.store.postgres.pooled_connection import PooledConnection
from holdfast.store.postgres.ready_queue import PostgresReadyQueue
from holdfast.store.postgres.receipts import write_action
from holdfast.store.roles.owners import Actor
from holdfast.store.roles.queue_admin import QueueKind, QueueLoad, QueueMove, QueueRepair

LOCK_WAIT_MS = 5000
"""While a move waits for the lock, everything else waits behind it."""
PROMOTE = "holdfast db promote --to {} --store URL"


class PostgresQueueAdmin:
    def __init__(self, pool: Pool, ready: PostgresReadyQueue, clock: Clock) -> None:
        self._pool, self._ready, self._clock, self._schema = pool, ready, clock, pool.place.schema

    async def kind(self) -> QueueKind:
        return QueueKind(await self._pool.value(sql.queue_kind))

    async def move(self, to: QueueKind, by: Actor) -> QueueMove:
        async def work(connection: PooledConnection) -> QueueMove:
            return await move_queue(connection, self._schema, to, by, self._clock.now_ms())

        return await self._pool.run(work, repeatable=True)

    async def load(self) -> QueueLoad:
        counts = await self._pool.single(self._ready.counts)
        return QueueLoad(counts.rows, await self._pool.value(for_queue(sql.queue_dead_rows, self._schema)))

    async def repair(self, position: int, limit: int) -> QueueRepair:
        if await self.kind() is QueueKind.NATIVE:
            return QueueRepair(0, 0, 0)
        ((first, last),) = await self._pool.rows(sql.repair_span)
        start = max(position, first - 1)
        end = start + limit
        now_ms = self._clock.now_ms()

        async def work(connection: PooledConnection) -> tuple[int, int]:
            added = await connection.run(sql.repair_missing, start, end, now_ms)
            return added, await connection.run(sql.repair_extra, start, end)

        added, removed = await self._pool.run(work, repeatable=True)
        return QueueRepair(added, removed, 0 if end >= last else end)


async def move_queue(
    connection: PooledConnection, schema: str, to: QueueKind, by: Actor | None, now_ms: int
) -> QueueMove:
    """Within a transaction. Leases keep their holders, and run on after the time that the move took."""
    await connection.script(f"SET LOCAL lock_timeout = {LOCK_WAIT_MS}")
    await connection.script(sql.queue_lock)
    before = QueueKind(await connection.value(sql.queue_kind))
    if before is to:
        return QueueMove(before, to, 0)
    began_ms = await connection.value("SELECT {schema}.now_ms()")
    if to is QueueKind.PGMQ:
        await _install(connection)
        await _fill_pgmq(connection, schema)
    else:
        await connection.script(sql.queue_to_native)
        await replace_views(connection)
        await connection.script(for_queue(sql.queue_drop, schema))
    rows = (await PostgresReadyQueue().counts(connection)).rows
    await connection.run(sql.queue_kind_set, to)
    await write_action(connection, by, now_ms, "promote", queue=to, before=before, rows=rows)
    took_ms = await connection.value("SELECT {schema}.now_ms()") - began_ms
    await connection.run(sql.queue_lease_longer, took_ms)
    return QueueMove(before, to, rows)


async def check_queue(connection: PooledConnection, wanted: QueueKind | None) -> None:
    """A URL that names a kind of queue must name the one in force. Other URLs use whichever that is."""
    if wanted is None:
        return
    found = await connection.value(sql.queue_kind)
    if found != wanted:
        raise BadConfig(
            f"the queue of this store is {found}, but its URL asks for {wanted}; move it with: "
            f"{PROMOTE.format(wanted)}, or write postgresql://… for whichever queue is in force"
        )


async def _fill_pgmq(connection: PooledConnection, schema: str) -> None:
    if await connection.value(for_queue(sql.queue_taken, schema)):
        raise BadConfig(
            f"pgmq already has a queue named {queue_name(schema)}, which is not of this store; "
            "remove it, or use another schema: postgresql://…?schema=NAME"
        )
    await connection.script(for_queue(sql.queue_create, schema))
    await connection.script(for_queue(sql.queue_to_pgmq, schema))
    await replace_views(connection)


async def _install(connection: PooledConnection) -> None:
    """Install pgmq if the database does not have it: the server's extension, or the SQL that its package brings."""
    if await connection.value(sql.pgmq_installed):
        return
    if await connection.value(sql.pgmq_offered):
        await connection.script(sql.pgmq_extend)
        return
    if find_spec("pgmq") is None:
        raise BadConfig(
            "this server has no extension pgmq, and the package that brings its SQL is not installed; "
            f"install it with: {install_command('pgmq')}"
        )
    from pgmq.install import get_embedded_install_sql

    await connection.raw.execute(get_embedded_install_sql())
