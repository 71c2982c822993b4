"""DBOS Transact: a workflow without steps on its own queue."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import psycopg
from dbos import DBOS, DBOSClient, DBOSConfig, EnqueueOptions
from protocol import PAYLOAD, Peer, answer

QUEUE = "bench"
POLL_S = 0.02
handler: list[Callable[[], None]] = []


@DBOS.workflow(name="noop")
def noop(body: dict[str, str]) -> None:
    handler[0]()


class Dbos(Peer):
    settings = f"psycopg, polling_interval_sec {POLL_S:g} (its default is 1)"

    async def open(self) -> None:
        self._thread = ThreadPoolExecutor(1)  # its synchronous calls refuse a thread with an event loop
        await self._call(self._prepare)
        self._connection = await psycopg.AsyncConnection.connect(self.url, autocommit=True)
        self._client = DBOSClient(system_database_url=self.url)

    async def close(self) -> None:
        await self._call(self._client.destroy)
        await self._connection.close()
        self._thread.shutdown()

    async def one(self) -> None:
        options: EnqueueOptions = {"workflow_name": "noop", "queue_name": QUEUE}
        await self._call(lambda: self._client.enqueue(options, PAYLOAD))

    async def many(self, count: int) -> None:
        raise NotImplementedError("no bulk enqueue")

    async def fill(self, count: int) -> None:
        for _ in range(count):
            await self.one()

    async def settle_in(self) -> None:
        await self._connection.execute("ANALYZE")

    async def work(self, handle: Callable[[], None]) -> None:
        handler[:] = [handle]
        await self._call(self._launch)

    async def stop(self) -> None:
        await self._call(lambda: DBOS.destroy(workflow_completion_timeout_sec=5))

    async def _call(self, function: Callable[[], object]) -> None:
        await asyncio.get_running_loop().run_in_executor(self._thread, function)

    def _prepare(self) -> None:
        self._launch()  # creates the tables
        DBOS.register_queue(QUEUE, polling_interval_sec=POLL_S)
        DBOS.destroy()

    def _launch(self) -> None:
        config: DBOSConfig = {"name": "bench", "system_database_url": self.url, "log_level": "ERROR"}
        DBOS(config=config)
        DBOS.launch()

    async def left(self) -> int:
        query = "SELECT count(*) FROM dbos.workflow_status WHERE status <> 'SUCCESS'"
        cursor = await self._connection.execute(query)
        row = await cursor.fetchone()
        assert row is not None
        return int(row[0])


answer(Dbos)
