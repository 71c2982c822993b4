"""PgQueuer, on asyncpg and uvloop as its own command line runs it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable

import asyncpg
import uvloop
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver, AsyncpgPoolDriver
from pgqueuer.models import Job
from pgqueuer.queries import Queries
from protocol import PAYLOAD, Peer, answer

BATCH = 250
BODY = json.dumps(PAYLOAD).encode()


class Pgqueuer(Peer):
    settings = f"asyncpg pool, uvloop, batch_size {BATCH}, LISTEN/NOTIFY"

    async def open(self) -> None:
        self._connection = await asyncpg.connect(self.url)
        self._queries = Queries(AsyncpgDriver(self._connection))
        await self._queries.install()
        self._pool = await asyncpg.create_pool(self.url, min_size=4, max_size=10)
        self._manager: PgQueuer | None = None

    async def close(self) -> None:
        await self._pool.close()
        await self._connection.close()

    async def one(self) -> None:
        await self._queries.enqueue("noop", BODY)

    async def many(self, count: int) -> None:
        await self._queries.enqueue(["noop"] * count, [BODY] * count, [0] * count)

    async def settle_in(self) -> None:
        await self._connection.execute("ANALYZE")

    async def work(self, handle: Callable[[], None]) -> None:
        self._manager = manager = PgQueuer(AsyncpgPoolDriver(self._pool))

        @manager.entrypoint("noop")
        async def noop(job: Job) -> None:
            assert job.payload is not None
            json.loads(job.payload)
            handle()

        self._task = asyncio.create_task(manager.run(batch_size=BATCH))

    async def stop(self) -> None:
        if self._manager is not None:
            self._manager.shutdown.set()
            await asyncio.wait([self._task], timeout=20)
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def left(self) -> int:
        return int(await self._connection.fetchval("SELECT count(*) FROM pgqueuer"))


answer(Pgqueuer, uvloop.run)
