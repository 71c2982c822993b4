"""The server stops and comes back: every process waits, reports it, and continues by itself."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from daemon import Daemon, wait_until
from holdfast.config.config import load_config
from holdfast.daemon.runtime import Runtime
from holdfast.domain.address import parse_address
from holdfast.domain.contract import Contract
from holdfast.domain.errors import StoreBusy
from holdfast.domain.event import Event, new_event
from holdfast.store.postgres.store import PostgresStore
from postgres import Server, newest, own_server

pytest_plugins = ("postgres",)

OUT_S = 4.0


@pytest.fixture
def mortal() -> Iterator[Server]:
    server = own_server(newest())
    yield server
    server.stop()


@pytest.mark.slow
async def test_a_daemon_survives_a_restart_of_its_server(mortal: Server, caplog: pytest.LogCaptureFixture) -> None:
    seen: list[int] = []

    async def handler(event: Event) -> None:
        seen.append(event.payload)

    async def until(count: int) -> None:
        async with asyncio.timeout(60):
            while len(set(seen)) < count:
                await asyncio.sleep(0.02)

    store = PostgresStore.open(mortal.url("holdfast"))
    contract = Contract("h", parse_address("handler:h"), source="programmatic")
    runtime = Runtime(store, load_config(None), None, handlers={"h": handler}, contracts=[contract])
    await runtime.start()
    await store.events.append([new_event("t", i, dedup_key=f"k{i}") for i in range(50)])
    await until(50)
    with caplog.at_level(logging.INFO, "holdfast"):
        await asyncio.to_thread(mortal.stop)
        with pytest.raises(StoreBusy, match=r"the database cannot be reached .* nothing is lost"):
            await store.events.append([new_event("t", 50, dedup_key="k50")])
        await asyncio.sleep(OUT_S)
        failing = {name: state for name, state in runtime.loop.health().items() if state != "ok"}
        assert "engine" in failing
        assert all("StoreBusy: the database cannot be reached" in state for state in failing.values()), failing
        await asyncio.to_thread(mortal.start)
        while True:
            try:
                await store.events.append([new_event("t", 50, dedup_key="k50")])
                break
            except StoreBusy:
                await asyncio.sleep(0.1)
        await until(51)
        async with asyncio.timeout(60):
            while set(runtime.loop.health().values()) != {"ok"} or not store._liveness.listens:
                await asyncio.sleep(0.05)
    state = [record.message for record in caplog.records]
    assert any("the liveness connection to the database is down" in line for line in state)
    assert any(line.startswith("engine recovered after") for line in state)
    assert len(state) < 200, "an outage must not flood the log"
    await runtime.stop()
    assert sorted(set(seen)) == list(range(51))


@pytest.mark.slow
def test_a_daemon_that_starts_before_its_server_waits_for_it_and_can_be_stopped(mortal: Server, tmp_path: Path) -> None:
    mortal.stop()
    daemon = Daemon(tmp_path / "home", env={"HOLDFAST_STORE": mortal.url("holdfast")})
    with daemon.launch():
        wait_until(
            lambda: "Waiting for the store: the database cannot be reached" in daemon.log, 60, lambda: daemon.log
        )
        assert daemon.stop() == 0
    with daemon.launch():
        wait_until(lambda: daemon.log.count("Waiting for the store") == 2, 60, lambda: daemon.log)
        mortal.start()
        daemon.wait_ready()
        assert daemon.request("POST", "/api/events", {"type": "t"})[0] == 201
        assert daemon.stop() == 0
