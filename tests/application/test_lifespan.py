"""Workers inside an application: they deliver, they wait for their turn, and they leave in order."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi import FastAPI

from holdfast import Event, Outbox
from holdfast.store.open import keep_closed, open_store
from postgres import fresh_schema, newest, start

TIMEOUT_S = 60.0

KEEP = """
import sys
from holdfast.store.open import keep_closed
with keep_closed(sys.argv[1], "the other process"):
    print("kept", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def outbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Outbox:
    monkeypatch.setenv("HOLDFAST_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("HOLDFAST_CONFIG", raising=False)
    return Outbox(f"sqlite:///{tmp_path}/app.db")


@pytest.fixture
def keeper(outbox: Outbox) -> Iterator[subprocess.Popen[str]]:
    """Another process that keeps the file until it is killed."""
    started = subprocess.Popen(
        [sys.executable, "-c", KEEP, outbox.url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert started.stdout.readline() == "kept\n"
    yield started
    if started.poll() is None:
        started.kill()
    started.communicate()


def publish(outbox: Outbox, path: Path, type: str) -> None:
    with contextlib.closing(sqlite3.connect(path / "app.db")) as connection:
        outbox.prepare(connection)
        with connection:
            outbox.publish(connection, type)


def listen(outbox: Outbox) -> asyncio.Queue[str]:
    received: asyncio.Queue[str] = asyncio.Queue()

    @outbox.on("order.*")
    async def receive(event: Event) -> None:
        received.put_nowait(event.type)

    return received


async def test_handlers_run_while_the_application_does(outbox: Outbox, tmp_path: Path) -> None:
    received = listen(outbox)
    async with outbox.lifespan(None):
        publish(outbox, tmp_path, "order.placed")
        assert await asyncio.wait_for(received.get(), TIMEOUT_S) == "order.placed"
    with keep_closed(outbox.url, "the test"):
        pass
    store = open_store(outbox.url, driver="sqlite3", create=False)
    assert (await store.operator.figures()).pending == 0
    await store.close()


async def test_fastapi_takes_it_as_its_lifespan(outbox: Outbox, tmp_path: Path) -> None:
    received = listen(outbox)
    app = FastAPI(lifespan=outbox.lifespan)
    async with app.router.lifespan_context(app):
        publish(outbox, tmp_path, "order.placed")
        assert await asyncio.wait_for(received.get(), TIMEOUT_S) == "order.placed"


async def test_beside_a_keeper_the_application_publishes_and_takes_over_when_it_is_killed(
    outbox: Outbox, tmp_path: Path, keeper: subprocess.Popen[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "holdfast")
    received = listen(outbox)
    async with outbox.lifespan(None):
        assert f"kept by process {keeper.pid} (the other process" in caplog.text
        publish(outbox, tmp_path, "order.placed")
        await asyncio.sleep(0.1)
        assert received.empty()
        keeper.kill()
        assert await asyncio.wait_for(received.get(), TIMEOUT_S) == "order.placed"
        assert "this application delivers now" in caplog.text


async def test_an_application_that_waits_has_its_contracts_registered_and_stops_at_once(
    outbox: Outbox, keeper: subprocess.Popen[str]
) -> None:
    listen(outbox)
    async with outbox.lifespan(None):
        store = open_store(outbox.url, driver="sqlite3", create=False)
        assert [contract.id for contract in await store.contracts.all()] == ["receive"]
        await store.close()
    assert keeper.poll() is None


async def test_what_begun_is_finished_before_the_application_ends(outbox: Outbox, tmp_path: Path) -> None:
    begun, ended = asyncio.Event(), []

    @outbox.on("order.*")
    async def slow(event: Event) -> None:
        begun.set()
        await asyncio.sleep(0.2)
        ended.append(event.type)

    async with outbox.lifespan(None):
        publish(outbox, tmp_path, "order.placed")
        await asyncio.wait_for(begun.wait(), TIMEOUT_S)
    assert ended == ["order.placed"]


async def test_on_postgresql_any_number_of_applications_deliver_side_by_side(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_HOME", str(tmp_path / "home"))
    server, schema = start(newest()), fresh_schema()
    one, two = Outbox(server.url(schema)), Outbox(server.url(schema))
    received, other = listen(one), listen(two)
    async with one.lifespan(None), two.lifespan(None):
        connection = await server.connect()
        async with connection.transaction():
            for number in range(20):
                await one.publish_async(connection, "order.placed", {"n": number})
        await connection.close()
        async with asyncio.timeout(TIMEOUT_S):
            while received.qsize() + other.qsize() < 20:
                await asyncio.sleep(0.01)
    assert received.qsize() + other.qsize() == 20
    server.psql(f"DROP SCHEMA {schema} CASCADE;")
