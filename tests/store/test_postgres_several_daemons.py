"""Several processes on one store: the work spreads, and `status` shows who holds what."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from daemon import Daemon, wait_until
from holdfast.domain.event import new_event
from holdfast.store.postgres.store import PostgresStore
from postgres import Server
from workers import Workers

pytest_plugins = ("postgres",)

BATCHES, BATCH, PAUSE_S = 400, 5, 0.005
WAIT_S = 60.0


@pytest.fixture
def workers(server: Server, schema: str, tmp_path: Path) -> Iterator[Workers]:
    with Workers(server.url(schema), tmp_path / "notes") as some:
        yield some


@pytest.mark.slow
@pytest.mark.parametrize("streams", [0, 40])
async def test_two_processes_under_load_share_the_work(
    server: Server, schema: str, workers: Workers, streams: int
) -> None:
    for _ in range(2):
        await asyncio.to_thread(workers.start)
    store = PostgresStore.open(server.url(schema))
    for batch in range(BATCHES):
        numbers = range(batch * BATCH, (batch + 1) * BATCH)
        names = [f"s{number % streams}" if streams else None for number in numbers]
        await store.events.append([new_event("t", n, stream=name) for n, name in zip(numbers, names, strict=True)])
        await asyncio.sleep(PAUSE_S)  # the load: events keep coming, as opposed to one burst
    await store.close()
    total = BATCHES * BATCH
    await asyncio.to_thread(wait_until, lambda: workers.runs().total() == total, WAIT_S, lambda: str(workers.runs()))
    shares = [count / total for count in workers.runs().values()]
    assert len(shares) == 2
    assert all(share >= 0.1 for share in shares), shares  # how evenly depends on the machine


@pytest.mark.slow
@pytest.mark.parametrize("streams", [0, 500])
async def test_two_processes_share_a_burst(server: Server, schema: str, workers: Workers, streams: int) -> None:
    for _ in range(2):
        await asyncio.to_thread(workers.start, 0.02)
    store = PostgresStore.open(server.url(schema))
    total = 2000
    names = [f"s{number % streams}" if streams else None for number in range(total)]
    await store.events.append([new_event("t", n, stream=name) for n, name in enumerate(names)])
    await store.close()
    await asyncio.to_thread(wait_until, lambda: workers.runs().total() == total, WAIT_S, lambda: str(workers.runs()))
    shares = [count / total for count in workers.runs().values()]
    assert len(shares) == 2
    assert all(share >= 0.1 for share in shares), shares


@pytest.mark.slow
async def test_status_shows_the_processes_of_a_store(
    server: Server, schema: str, workers: Workers, tmp_path: Path
) -> None:
    worker = await asyncio.to_thread(workers.start, 3600.0)
    store = PostgresStore.open(server.url(schema))
    await store.events.append([new_event("t", n, stream=f"s{n}") for n in range(3)])
    await store.close()
    with Daemon(tmp_path / "home", env={"HOLDFAST_STORE": server.url(schema)}) as daemon:
        status = daemon.wait_for(
            "/api/status", lambda answer: sum(one["deliveries"] for one in answer["daemons"]) == 3, WAIT_S
        )
        first, second = status["daemons"]
        assert (first["pid"], first["deliveries"], first["alive"]) == (worker.pid, 3, True)
        assert (second["pid"], second["deliveries"], second["alive"]) == (daemon.pid, 0, True)
        assert first["since"] <= first["last_seen_at"] <= second["last_seen_at"]
        assert first["chain"] != second["chain"]
        assert f"(pid {worker.pid}): 3 deliveries" in daemon.cli("status").out
        os.kill(worker.pid, signal.SIGKILL)
        worker.wait()
        daemon.wait_for("/api/status", lambda answer: [one["pid"] for one in answer["daemons"]] == [daemon.pid], WAIT_S)
