"""faststream-outbox: publish in a SQLAlchemy session, and a subscriber that processes the rows."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from faststream_outbox import OutboxBroker, make_outbox_table
from protocol import PAYLOAD, Peer, answer
from sqlalchemy import MetaData, text
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine

WORKERS = 8
FETCH = 200
FLUSH = 50


class FaststreamOutbox(Peer):
    settings = (
        f"asyncpg, max_workers {WORKERS}, fetch_batch_size {FETCH}, terminal_flush_batch_size {FLUSH}, LISTEN/NOTIFY"
    )

    async def open(self) -> None:
        self._engine = create_async_engine(self.url.replace("postgresql://", "postgresql+asyncpg://"), pool_size=10)
        metadata = MetaData()
        table = make_outbox_table(metadata, table_name="outbox")
        async with self._engine.begin() as connection:
            await connection.run_sync(metadata.create_all)
        self._broker = OutboxBroker(self._engine, outbox_table=table, log_level=logging.WARNING, logger=None)
        self._session = async_sessionmaker(self._engine, expire_on_commit=False)
        self._handle: Callable[[], None] = lambda: None

        @self._broker.subscriber(
            "noop",
            max_workers=WORKERS,
            fetch_batch_size=FETCH,
            terminal_flush_batch_size=FLUSH,
            min_fetch_interval=0.01,
        )
        async def noop(body: dict[str, Any]) -> None:
            self._handle()

        await self._broker.connect()

    async def close(self) -> None:
        await self._engine.dispose()

    async def one(self) -> None:
        async with self._session() as session, session.begin():
            await self._broker.publish(PAYLOAD, queue="noop", session=session)

    async def many(self, count: int) -> None:
        async with self._session() as session, session.begin():
            await self._broker.publish_batch(*[PAYLOAD] * count, queue="noop", session=session)

    async def settle_in(self) -> None:
        async with self._engine.begin() as connection:
            await connection.execute(text("ANALYZE"))

    async def work(self, handle: Callable[[], None]) -> None:
        self._handle = handle
        await self._broker.start()

    async def stop(self) -> None:
        await self._broker.stop()

    async def left(self) -> int:
        async with self._engine.connect() as connection:
            return int((await connection.execute(text("SELECT count(*) FROM outbox"))).scalar_one())


answer(FaststreamOutbox)
