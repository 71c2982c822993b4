"""Holdfast: publish in the transaction of the order. `holdfast up` with `holdfast.yml` delivers."""

from __future__ import annotations  # harness

import os

import asyncpg
from harness import run  # harness

from holdfast import Outbox


class Shop:
    settings = "holdfast up with the configuration shown; 64 requests at a time is its default"  # harness

    async def setup(self) -> None:
        Outbox(os.environ["DATABASE_URL"]).migrate()

    async def open(self) -> None:
        self._outbox = Outbox(os.environ["DATABASE_URL"])
        self._pool = await asyncpg.create_pool(os.environ["DATABASE_URL"], min_size=16, max_size=16)

    async def close(self) -> None:
        await self._pool.close()

    async def place(self, order: dict[str, object]) -> str:
        async with self._pool.acquire() as connection, connection.transaction():
            await connection.execute("INSERT INTO orders VALUES ($1, $2)", order["id"], order["item"])
            published = await self._outbox.publish_async(connection, "order.placed", order)
            return published.id

    async def work(self) -> None:  # harness
        raise NotImplementedError("holdfast up")  # harness


run(Shop())  # harness
