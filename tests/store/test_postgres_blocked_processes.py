"""Blocked processes keep their work, stopped ones lose it, and neither blocks the others."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast.domain.errors import StoreBusy
from holdfast.domain.event import new_event
from holdfast.store.postgres import pool
from pg_work import claim, end, send
from postgres import Server, opened

pytest_plugins = ("postgres",)

LEASE_S = 2.0
LONG_S = 240.0
TERMINATE = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'holdfast';"
WORKER = Path(__file__).parent.parent / "support" / "pg_worker.py"


async def test_a_blocked_loop_keeps_its_leases(server: Server, schema: str) -> None:
    async with opened(server, schema) as busy, opened(server, schema) as other:
        owner = await busy.owners.register()
        await other.owners.register()
        await send(busy)
        claims = await claim(busy, owner, lease_s=1)
        time.sleep(3)  # noqa: ASYNC251
        assert await other.deliveries.reclaim() == 0
        assert busy._liveness.lease_keeper.kept > 0
        assert await end(busy, owner, claims) == set()


async def test_the_lease_keeper_does_nothing_while_the_loop_runs(server: Server, schema: str) -> None:
    """A lease that the engine does not renew ends: the thread steps in for a silent loop only."""
    async with opened(server, schema) as store:
        owner = await store.owners.register()
        await send(store)
        await claim(store, owner, lease_s=4)
        await asyncio.sleep(5)
        assert await store.deliveries.reclaim() == 1
        assert store._liveness.lease_keeper.kept == 0


async def test_a_process_that_stops_in_a_transaction_loses_it(
    server: Server, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one stopped in the middle of routing: without this nobody else could route until it is killed."""
    short = {durable: text.replace(str(pool.IDLE_MAX_MS), "300") for durable, text in pool._BEGIN.items()}
    async with opened(server, schema) as still, opened(server, schema) as other:
        await still.events.append([new_event("t")])
        await other.contracts.version()
        monkeypatch.setattr(pool, "_BEGIN", short)
        async with still.routing.batch(10) as batch:
            assert len(batch.events) == 1
            await asyncio.sleep(1)
            async with other.routing.batch(10) as theirs:
                assert len(theirs.events) == 1
            with pytest.raises(StoreBusy, match="cannot be reached"):
                await batch.commit([])


class Workers:
    def __init__(self, url: str, notes: Path) -> None:
        self._url, self.notes, self._processes = url, notes, list[subprocess.Popen[bytes]]()

    def start(self, manner: str, seconds: float = 0.0, lease_s: float = LEASE_S) -> subprocess.Popen[bytes]:
        command = [sys.executable, str(WORKER), self._url, str(self.notes), str(lease_s), manner, str(seconds)]
        log = self.notes.with_suffix(".log").open("ab")
        with log:
            process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        self._processes.append(process)
        self.until(lambda: f"{process.pid} works" in self.reported())
        return process

    def reported(self) -> list[str]:
        return self.notes.read_text().splitlines() if self.notes.exists() else []

    def until(self, condition: Callable[[], bool], seconds: float = 60.0) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, (self.reported(), self.notes.with_suffix(".log").read_text()[-2000:])
            time.sleep(0.02)

    def end(self) -> None:
        for process in self._processes:
            process.kill()
            process.wait()


@pytest.fixture
def workers(server: Server, schema: str, tmp_path: Path) -> Iterator[Workers]:
    made = Workers(server.url(schema), tmp_path / "notes")
    yield made
    made.end()


def publish(server: Server, schema: str) -> None:
    assert server.psql(f"SELECT {schema}.publish('t');").returncode == 0


def states(server: Server, schema: str) -> list[str]:
    return server.psql(f"SELECT state || ' ' || attempts FROM {schema}.deliveries;").stdout.split("\n")[:-1]


@pytest.mark.slow
def test_a_handler_that_blocks_for_longer_than_its_lease_runs_once(
    server: Server, schema: str, workers: Workers
) -> None:
    busy = workers.start("blocks", 4 * LEASE_S)
    publish(server, schema)
    workers.until(lambda: f"{busy.pid} begins" in workers.reported())
    workers.start("returns")
    workers.until(lambda: f"{busy.pid} ends" in workers.reported())
    workers.until(lambda: states(server, schema) == ["delivered 1"])
    assert [line for line in workers.reported() if line.endswith("begins")] == [f"{busy.pid} begins"]


@pytest.mark.slow
def test_the_work_of_a_stopped_process_is_taken_over_and_its_own_end_refused(
    server: Server, schema: str, workers: Workers
) -> None:
    stopped = workers.start("waits", 1.0)
    publish(server, schema)
    workers.until(lambda: f"{stopped.pid} begins" in workers.reported())
    os.kill(stopped.pid, signal.SIGSTOP)
    other = workers.start("returns")
    try:
        workers.until(lambda: f"{other.pid} ends" in workers.reported(), 10 * LEASE_S)
        workers.until(lambda: states(server, schema) == ["delivered 1"])
    finally:
        os.kill(stopped.pid, signal.SIGCONT)
    publish(server, schema)
    workers.until(lambda: states(server, schema) == ["delivered 1", "delivered 1"])
    of_deliveries = "position('\"delivery\"'::bytea IN leaves) > 0"  # the others are about contracts
    leaves = server.psql(f"SELECT count(*) FROM {schema}.receipts WHERE {of_deliveries};").stdout.strip()
    assert leaves == "2"


@pytest.mark.slow
def test_a_handler_runs_once_though_every_session_of_its_process_is_terminated(
    server: Server, schema: str, workers: Workers
) -> None:
    working = workers.start("stays", lease_s=LONG_S)
    publish(server, schema)
    workers.until(lambda: f"{working.pid} begins" in workers.reported())
    workers.start("returns", lease_s=LONG_S)
    ended = 0
    for _ in range(30):
        ended += len(server.psql(TERMINATE).stdout.split())
        time.sleep(0.1)
    assert ended > 0
    workers.notes.with_suffix(".go").touch()
    workers.until(lambda: states(server, schema) == ["delivered 1"])
    assert [line for line in workers.reported() if line.endswith("begins")] == [f"{working.pid} begins"]


@pytest.mark.slow
def test_the_work_of_a_killed_process_is_taken_over_long_before_its_lease_ends(
    server: Server, schema: str, workers: Workers
) -> None:
    killed = workers.start("waits", 3600, LONG_S)
    publish(server, schema)
    workers.until(lambda: f"{killed.pid} begins" in workers.reported())
    other = workers.start("returns", lease_s=LONG_S)
    killed.kill()  # and not waited for: it is dead before it is buried
    workers.until(lambda: f"{other.pid} ends" in workers.reported(), LONG_S / 4)
    workers.until(lambda: states(server, schema) == ["delivered 1"])
