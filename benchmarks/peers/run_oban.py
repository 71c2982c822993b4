"""oban-py, embedded, with its own pool, on uvloop as its own command line runs it."""

from __future__ import annotations

from collections.abc import Callable

import uvloop
from oban import Oban, worker
from oban.schema import install
from protocol import PAYLOAD, Peer, answer

LIMIT = 100
handler: list[Callable[[], None]] = []


@worker(queue="default")
class Noop:
    async def process(self, job: object) -> None:
        handler[0]()


class ObanPeer(Peer):
    settings = f"psycopg pool of 10, uvloop, queue limit {LIMIT}, LISTEN/NOTIFY"

    async def open(self) -> None:
        self._pool = await Oban.create_pool(self.url, min_size=4, max_size=10)
        await install(self._pool)
        self._client = Oban(pool=self._pool, name="client")
        await self._client.start()
        self._server: Oban | None = None

    async def close(self) -> None:
        await self._client.stop()
        await self._pool.close()

    async def one(self) -> None:
        await self._client.enqueue(Noop.new(PAYLOAD))

    async def many(self, count: int) -> None:
        await self._client.enqueue_many([Noop.new(PAYLOAD) for _ in range(count)])

    async def settle_in(self) -> None:
        async with self._pool.connection() as connection:
            await connection.execute("ANALYZE")

    async def work(self, handle: Callable[[], None]) -> None:
        handler[:] = [handle]
        self._server = Oban(pool=self._pool, queues={"default": LIMIT})
        await self._server.start()

    async def stop(self) -> None:
        if self._server is not None:
            await self._server.stop()

    async def left(self) -> int:
        async with self._pool.connection() as connection:
            cursor = await connection.execute("SELECT count(*) FROM oban_jobs WHERE state <> 'completed'")
            row = await cursor.fetchone()
        return int(row[0])


answer(ObanPeer, uvloop.run)
