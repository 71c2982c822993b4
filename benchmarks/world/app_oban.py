"""oban-py: enqueue on the connection of the transaction; a worker sends the webhook. On uvloop, as its CLI runs."""

from __future__ import annotations  # harness

import asyncio
import os

import uvloop
from harness import run  # harness
from oban import Oban, worker
from oban.schema import install
from webhook import Webhook

LIMIT = 100
webhook = Webhook()


@worker(queue="default", max_attempts=10)
class Send:
    async def process(self, job) -> None:  # type: ignore[no-untyped-def]
        await webhook.send(job.args)


class Shop:
    settings = f"psycopg pool of 16, uvloop, queue limit {LIMIT}, LISTEN/NOTIFY"  # harness

    async def setup(self) -> None:
        pool = await Oban.create_pool(os.environ["DATABASE_URL"])
        await install(pool)
        await pool.close()

    async def open(self) -> None:
        self._pool = await Oban.create_pool(os.environ["DATABASE_URL"], min_size=16, max_size=16)
        self._client = Oban(pool=self._pool, name="client")
        await self._client.start()

    async def close(self) -> None:
        await self._client.stop()
        await self._pool.close()

    async def place(self, order: dict[str, object]) -> None:
        async with self._pool.connection() as connection, connection.transaction():
            await connection.execute("INSERT INTO orders VALUES (%s, %s)", (order["id"], order["item"]))
            await self._client.enqueue(Send.new(order), conn=connection)

    async def work(self) -> None:
        await webhook.open()
        pool = await Oban.create_pool(os.environ["DATABASE_URL"], min_size=4, max_size=16)
        await Oban(pool=pool, queues={"default": LIMIT}).start()
        await asyncio.Event().wait()


run(Shop(), uvloop.run)  # harness
