"""A live process keeps its leases when its session is lost; a dead one loses them."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from holdfast.store import process_id
from holdfast.store.postgres.owner_check import RECONNECT_S, OwnerCheck
from holdfast.store.postgres.store import PostgresStore
from holdfast.store.process_id import ProcessId, is_running, own_process_id, parse_process_id
from pg_work import claim, end, send
from postgres import Server, opened

pytest_plugins = ("postgres",)

OTHER = str(ProcessId("elsewhere/pid:[1]", "7"))


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
    yield process
    process.kill()
    process.communicate()


def process_id_of(pid: int) -> ProcessId:
    return ProcessId(own_process_id().machine, process_id._started(pid) or "")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux gives the start time of a process")
def test_a_process_is_identified_by_pid_and_start_time(child: subprocess.Popen[bytes]) -> None:
    child_id = process_id_of(child.pid)
    assert is_running(child.pid, child_id) is True
    assert is_running(child.pid, child_id._replace(started="1")) is False, "a later process with the same pid"
    assert is_running(child.pid, child_id._replace(machine="elsewhere")) is None
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert is_running(child.pid, child_id) is False, "a zombie is dead"


def test_a_process_id_parses_as_written_and_an_old_form_proves_nothing() -> None:
    assert parse_process_id(str(own_process_id())) == own_process_id()
    assert is_running(os.getpid(), own_process_id()._replace(started="-")) is None
    assert is_running(1, parse_process_id("0f3a5bd2")) is None
    assert is_running(1, parse_process_id(None)) is None


def test_an_owner_on_another_machine_is_dead_only_after_a_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s, recently_disconnected = 100.0, False
    monkeypatch.setattr(time, "monotonic", lambda: now_s)
    others = OwnerCheck(lambda owner: False, lambda: recently_disconnected)
    missing = [(7, 1234, OTHER)]
    assert (others.gone(missing), others.undecided) == ([], True)
    now_s += RECONNECT_S
    assert (others.gone([]), others.undecided) == ([], False), "it came back"
    assert others.gone(missing) == [], "and is missing again"
    now_s += RECONNECT_S
    recently_disconnected = True
    assert others.gone(missing) == [], "the server lost us too, so it may need longer"
    recently_disconnected = False
    assert others.gone(missing) == [7]
    assert others.gone([(8, None, None)]) == [8], "nobody remembers it"


async def lose_session(store: PostgresStore) -> None:
    """Its session ends and does not come back for now; its process lives."""
    await store._liveness._stop()
    assert store._liveness._connection is not None
    store._liveness._connection.drop()
    async with asyncio.timeout(10):
        while await store._pool.value("SELECT count(*) FROM {schema}.owners_alive()") > 1:
            await asyncio.sleep(0.01)


async def test_a_living_process_without_a_session_keeps_its_work(server: Server, schema: str) -> None:
    async with opened(server, schema) as one, opened(server, schema) as two:
        living, _ = await one.owners.register(), await two.owners.register()
        await send(one, 5)
        claims = await claim(one, living)
        await lose_session(one)
        assert await two.deliveries.reclaim() == 0
        assert await one.deliveries.reclaim() == 0, "nor does it take its own"
        await asyncio.sleep(RECONNECT_S)
        assert await two.deliveries.reclaim() == 0
        assert await end(one, living, claims) == set()


async def test_a_living_process_without_a_session_loses_its_work_when_its_lease_ends(
    server: Server, schema: str
) -> None:
    async with opened(server, schema) as one, opened(server, schema) as two:
        living, _ = await one.owners.register(), await two.owners.register()
        await send(one)
        claims = await claim(one, living, lease_s=1)
        await lose_session(one)
        async with asyncio.timeout(20):  # on a busy machine a thread may prolong it once or twice
            while await two.deliveries.reclaim() == 0:
                await asyncio.sleep(0.05)
        assert await end(one, living, claims) == {one.delivery.id for one in claims}


async def test_a_process_on_another_machine_has_time_to_reconnect(server: Server, schema: str) -> None:
    async with opened(server, schema) as one, opened(server, schema) as two:
        away, _ = await one.owners.register(), await two.owners.register()
        woken: list[str] = []
        two.on_change(woken.append)
        await send(one)
        claims = await claim(one, away)
        await one._pool.rows("UPDATE {schema}.owners SET boot_id = $1 WHERE id = $2 RETURNING id", OTHER, away.id)
        await lose_session(one)
        assert await two.deliveries.reclaim() == 0
        await asyncio.sleep(RECONNECT_S + 0.1)
        assert "owners" in woken, "the next look is not left to chance"
        assert await two.deliveries.reclaim() == 1
        assert await end(one, away, claims) == {one.delivery.id for one in claims}
