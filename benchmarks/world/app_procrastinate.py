"""Procrastinate: defer on the connection of the transaction; a task sends the webhook."""

from __future__ import annotations  # harness

import os

import procrastinate
import psycopg_pool
from harness import run  # harness
from webhook import Webhook

CONCURRENCY = 64


class Shop:
    settings = f"PsycopgConnector with a pool of 20, concurrency {CONCURRENCY}, LISTEN/NOTIFY"  # harness

    def __init__(self) -> None:
        connector = procrastinate.PsycopgConnector(conninfo=os.environ["DATABASE_URL"], min_size=4, max_size=20)
        self._app = procrastinate.App(connector=connector)
        self._webhook = Webhook()
        retry = procrastinate.RetryStrategy(max_attempts=10, exponential_wait=2)
        self._send = self._app.task(name="send", retry=retry)(self._webhook.send)

    async def setup(self) -> None:
        async with self._app.open_async():
            await self._app.schema_manager.apply_schema_async()

    async def open(self) -> None:
        await self._app.open_async()
        self._pool = psycopg_pool.AsyncConnectionPool(os.environ["DATABASE_URL"], min_size=16, max_size=16, open=False)
        await self._pool.open(wait=True)

    async def close(self) -> None:
        await self._pool.close()
        await self._app.close_async()

    async def place(self, order: dict[str, object]) -> None:
        async with self._pool.connection() as connection, connection.transaction():
            await connection.execute("INSERT INTO orders VALUES (%s, %s)", (order["id"], order["item"]))
            await self._send.configure(connection=connection).defer_async(order=order)

    async def work(self) -> None:
        await self._app.open_async()
        await self._webhook.open()
        await self._app.run_worker_async(concurrency=CONCURRENCY, install_signal_handlers=False)


run(Shop())  # harness
