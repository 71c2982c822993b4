"""Procrastinate, with its psycopg connector and one worker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import procrastinate
from protocol import PAYLOAD, Peer, answer

CONCURRENCY = 20


class Procrastinate(Peer):
    settings = f"PsycopgConnector, concurrency {CONCURRENCY}, LISTEN/NOTIFY"

    async def open(self) -> None:
        connector = procrastinate.PsycopgConnector(conninfo=self.url, min_size=4, max_size=CONCURRENCY)
        self._app = app = procrastinate.App(connector=connector)
        self._handle: Callable[[], None] = lambda: None

        @app.task(name="noop")
        async def noop(text: str) -> None:
            self._handle()

        self._noop = noop
        await app.open_async()
        await app.schema_manager.apply_schema_async()
        self._task: asyncio.Task[None] | None = None

    async def close(self) -> None:
        await self._app.close_async()

    async def one(self) -> None:
        await self._noop.defer_async(**PAYLOAD)

    async def many(self, count: int) -> None:
        await self._noop.batch_defer_async(*[PAYLOAD] * count)

    async def settle_in(self) -> None:
        await self._app.connector.execute_query_async("ANALYZE")

    async def work(self, handle: Callable[[], None]) -> None:
        self._handle = handle
        self._task = asyncio.create_task(
            self._app.run_worker_async(concurrency=CONCURRENCY, install_signal_handlers=False)
        )

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def left(self) -> int:
        query = "SELECT count(*) AS n FROM procrastinate_jobs WHERE status <> 'succeeded'"
        return int((await self._app.connector.execute_query_one_async(query))["n"])


answer(Procrastinate)
