"""Events per second by the number of processes that share a PostgreSQL store, and what the server writes for each."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import asyncpg

from benchmarks.measure import Results
from benchmarks.orders import Failed
from benchmarks.server import Server
from benchmarks.sizes import Sizes
from holdfast.domain.event import new_event
from holdfast.store.postgres.store import PostgresStore

NUMBERS = (1, 2, 3)
HANDLERS = {"no-op": 0.0, "20 ms": 0.02}
"""A no-op keeps the processors busy; a handler that waits is limited by its concurrency in each process."""
BATCH = 500
WAIT_S = 300.0
_LEFT = "SELECT (SELECT count(*) FROM holdfast.unrouted) + (SELECT count(*) FROM holdfast.ready)"
_DEAD = "SELECT coalesce(sum(n_dead_tup), 0)::float8 FROM pg_stat_user_tables WHERE schemaname = 'holdfast'"


def measure(results: Results, folder: Path, server: Server | None, sizes: Sizes) -> None:
    if server is None:
        raise RuntimeError("no PostgreSQL server is running")
    for _ in range(sizes.times):
        for handler, seconds in HANDLERS.items():
            for number in NUMBERS:
                count = sizes.drain if not seconds else sizes.drain // 4
                with server.database("bench") as url:
                    _take(results, f"daemons.{handler}.{number}", url, number, seconds, count)


def _take(results: Results, name: str, url: str, number: int, seconds: float, count: int) -> None:
    asyncio.run(_prepare(url))
    with contextlib.ExitStack() as stack:
        workers = [stack.enter_context(_worker(url, seconds)) for _ in range(number)]
        for worker in workers:
            assert worker.stdout is not None
            if worker.stdout.readline().strip() != "ready":
                raise Failed(f"worker {worker.pid} did not start")
        taken_s, log_bytes, dead = asyncio.run(_publish(url, count))
    results.add(f"{name}.rate", count / taken_s, "/s")
    results.add(f"{name}.log", log_bytes / count, "B")
    results.add(f"{name}.dead rows", 100 * dead / count, "%")


@contextlib.contextmanager
def _worker(url: str, seconds: float) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "benchmarks.daemons_worker", url, str(seconds)]
    worker = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield worker
    finally:
        worker.communicate("", timeout=60)


async def _prepare(url: str) -> None:
    store = PostgresStore.open(url)
    await store.owners.working(1)
    await store.close()


async def _publish(url: str, count: int) -> tuple[float, float, float]:
    """The seconds from the first publish until all are settled, the bytes of log, and the dead rows afterwards."""
    store, connection = PostgresStore.open(url), await asyncpg.connect(url)
    before = await connection.fetchval("SELECT pg_current_wal_insert_lsn()")
    began_s = time.perf_counter()
    for start in range(0, count, BATCH):
        await store.events.append(
            [new_event("bench", {"n": n, "text": "x" * 280}) for n in range(start, start + BATCH)]
        )
    while await connection.fetchval(_LEFT):
        if time.perf_counter() - began_s > WAIT_S:
            raise Failed(f"not all of {count} events were handled within {WAIT_S:g} s")
        await asyncio.sleep(0.01)
    taken_s = time.perf_counter() - began_s
    log_bytes = await connection.fetchval("SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), $1)", before)
    await connection.execute("SELECT pg_stat_force_next_flush()")
    dead = await connection.fetchval(_DEAD)
    await connection.close()
    await store.close()
    return taken_s, float(log_bytes), float(dead)
