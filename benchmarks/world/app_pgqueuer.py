"""PgQueuer: enqueue on the connection of the transaction; an entrypoint sends the webhook. On uvloop, as by its CLI."""

from __future__ import annotations  # harness

import json
import os

import asyncpg
import uvloop
from harness import run  # harness
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver, AsyncpgPoolDriver
from pgqueuer.executors import DatabaseRetryEntrypointExecutor
from pgqueuer.models import Job
from pgqueuer.queries import Queries
from webhook import Webhook

BATCH = 250


class Shop:
    settings = f"asyncpg pool, uvloop, batch_size {BATCH}, database retries, LISTEN/NOTIFY"  # harness

    async def setup(self) -> None:
        connection = await asyncpg.connect(os.environ["DATABASE_URL"])
        await Queries(AsyncpgDriver(connection)).install()
        await connection.close()

    async def open(self) -> None:
        self._pool = await asyncpg.create_pool(os.environ["DATABASE_URL"], min_size=16, max_size=16)

    async def close(self) -> None:
        await self._pool.close()

    async def place(self, order: dict[str, object]) -> None:
        async with self._pool.acquire() as connection, connection.transaction():
            await connection.execute("INSERT INTO orders VALUES ($1, $2)", order["id"], order["item"])
            await Queries(AsyncpgDriver(connection)).enqueue("order.placed", json.dumps(order).encode())

    async def work(self) -> None:
        await self.open()
        webhook = Webhook()
        await webhook.open()
        worker = PgQueuer(AsyncpgPoolDriver(self._pool))

        @worker.entrypoint("order.placed", executor_factory=DatabaseRetryEntrypointExecutor)
        async def send(job: Job) -> None:
            await webhook.send(json.loads(job.payload))

        await worker.run(batch_size=BATCH)


run(Shop(), uvloop.run)  # harness
