"""faststream-outbox: publish in the SQLAlchemy session of the order; a subscriber sends the webhook."""

from __future__ import annotations  # harness

import asyncio
import logging
import os

from faststream_outbox import ExponentialRetry, OutboxBroker, make_outbox_table
from harness import run  # harness
from sqlalchemy import MetaData, text
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine
from webhook import Webhook

WORKERS, FETCH, FLUSH = 16, 200, 50


class Shop:
    settings = f"asyncpg, {WORKERS} workers, fetch {FETCH}, flush {FLUSH}, interval 0.01 s, LISTEN/NOTIFY"  # harness

    def __init__(self) -> None:
        url = os.environ["DATABASE_URL"].replace("postgresql://", "postgresql+asyncpg://")
        self._engine = create_async_engine(url, pool_size=20)
        self._metadata = MetaData()
        table = make_outbox_table(self._metadata, table_name="outbox")
        self._broker = OutboxBroker(self._engine, outbox_table=table, log_level=logging.WARNING, logger=None)
        self._session = async_sessionmaker(self._engine, expire_on_commit=False)

    async def setup(self) -> None:
        async with self._engine.begin() as connection:
            await connection.run_sync(self._metadata.create_all)

    async def open(self) -> None:
        await self._broker.connect()

    async def close(self) -> None:
        await self._engine.dispose()

    async def place(self, order: dict[str, object]) -> None:
        async with self._session() as session, session.begin():
            await session.execute(text("INSERT INTO orders VALUES (:id, :item)"), order)
            await self._broker.publish(order, queue="order.placed", session=session)

    async def work(self) -> None:
        webhook = Webhook()
        await webhook.open()

        @self._broker.subscriber(
            "order.placed",
            max_workers=WORKERS,
            fetch_batch_size=FETCH,
            terminal_flush_batch_size=FLUSH,
            min_fetch_interval=0.01,
            retry_strategy=ExponentialRetry(initial_delay_seconds=1, max_attempts=10),
        )
        async def send(order: dict[str, object]) -> None:
            await webhook.send(order)

        await self._broker.start()
        await asyncio.Event().wait()


run(Shop())  # harness
