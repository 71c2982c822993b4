"""The ready queue of a SQLite store is a table of its file, and stays there."""

from __future__ import annotations

from holdfast.domain.errors import BadInput
from holdfast.store.roles.owners import Actor
from holdfast.store.roles.queue_admin import QueueKind, QueueLoad, QueueMove, QueueRepair
from holdfast.store.sqlite.reader import Reader
from holdfast.store.sqlite.ready_queue import SqliteReadyQueue


class SqliteQueueAdmin:
    def __init__(self, reader: Reader, ready: SqliteReadyQueue) -> None:
        self._reader, self._ready = reader, ready

    async def kind(self) -> QueueKind:
        return QueueKind.NATIVE

    async def move(self, to: QueueKind, by: Actor) -> QueueMove:
        if to is QueueKind.NATIVE:
            return QueueMove(QueueKind.NATIVE, to, 0)
        raise BadInput(
            "the queue of a SQLite store is part of its file; copy the store to PostgreSQL first: "
            "holdfast db copy SOURCE TARGET"
        )

    async def load(self) -> QueueLoad:
        counts = await self._reader.run(self._ready.counts)
        return QueueLoad(counts.rows, 0)

    async def repair(self, position: int, limit: int) -> QueueRepair:
        return QueueRepair(0, 0, 0)
