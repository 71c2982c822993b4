"""pgmq: the SQL of its package, without a worker. Read a batch, pass each message to the handler, delete the batch."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable

import asyncpg
from pgmq import _sql, get_embedded_install_sql, get_embedded_sql_version
from protocol import PAYLOAD, Peer, answer

QUEUE = "bench"
BATCH = 500
LEASE_S = 30
POLL_S = 0.01
SEND, SEND_BATCH, READ, DELETE, ARCHIVE = (
    _sql.ASYNC_SQL_MAP[query]
    for query in (_sql.SEND, _sql.SEND_BATCH, _sql.READ, _sql.DELETE_BATCH, _sql.ARCHIVE_BATCH)
)


class Pgmq(Peer):
    settings = (
        f"SQL {get_embedded_sql_version()}, asyncpg, one reader, {BATCH} messages per read, 10 ms poll when empty"
    )

    async def open(self) -> None:
        self._end = ARCHIVE if self.order.get("end") == "archive" else DELETE
        self._connection = await asyncpg.connect(self.url)
        self._reader = await asyncpg.connect(self.url)
        await self._connection.execute(get_embedded_install_sql())
        await self._connection.execute(f"SELECT pgmq.create('{QUEUE}')")
        self._message = json.dumps(PAYLOAD)
        self._worker: asyncio.Task[None] | None = None

    async def close(self) -> None:
        await self._connection.close()
        await self._reader.close()

    async def one(self) -> None:
        await self._connection.fetch(SEND, QUEUE, self._message)

    async def many(self, count: int) -> None:
        await self._connection.fetch(SEND_BATCH, QUEUE, [self._message] * count)

    async def settle_in(self) -> None:
        await self._connection.execute("ANALYZE")

    async def work(self, handle: Callable[[], None]) -> None:
        self._worker = asyncio.create_task(self._read(handle))

    async def stop(self) -> None:
        if self._worker is not None:
            self._worker.cancel()
            await asyncio.gather(self._worker, return_exceptions=True)

    async def left(self) -> int:
        return int(await self._connection.fetchval(f"SELECT count(*) FROM pgmq.q_{QUEUE}"))

    async def _read(self, handle: Callable[[], None]) -> None:
        while True:
            rows = await self._reader.fetch(READ, QUEUE, LEASE_S, BATCH)
            for row in rows:
                json.loads(row["message"])
                handle()
            if rows:
                await self._reader.fetch(self._end, QUEUE, [row["msg_id"] for row in rows])
            else:
                await asyncio.sleep(POLL_S)


answer(Pgmq)
