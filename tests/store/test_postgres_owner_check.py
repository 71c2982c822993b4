"""One who lives keeps his leases, also when his session is lost; one who is gone keeps nothing."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from holdfast.store import process_id as marks
from holdfast.store.postgres.owner_check import BACK_S, OwnerCheck
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


def mark_of(pid: int) -> ProcessId:
    return ProcessId(own_process_id().machine, marks._started(pid) or "")


@pytest.mark.skipif(sys.platform != "linux", reason="only there does the system say when a process began")
def test_a_process_is_known_by_its_number_and_its_beginning(child: subprocess.Popen[bytes]) -> None:
    mark = mark_of(child.pid)
    assert is_running(child.pid, mark) is True
    assert is_running(child.pid, mark._replace(started="1")) is False, "a later one with the same number"
    assert is_running(child.pid, mark._replace(machine="elsewhere")) is None
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert is_running(child.pid, mark) is False, "it is dead, though nobody has buried it"


def test_a_mark_reads_as_it_was_written_and_an_old_one_says_nothing() -> None:
    assert parse_process_id(str(own_process_id())) == own_process_id()
    assert is_running(os.getpid(), own_process_id()._replace(started="-")) is None
    assert is_running(1, parse_process_id("0f3a5bd2")) is None
    assert is_running(1, parse_process_id(None)) is None


def test_of_another_machine_only_time_can_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s, troubled = 100.0, False
    monkeypatch.setattr(time, "monotonic", lambda: now_s)
    others = OwnerCheck(lambda owner: False, lambda: troubled)
    missing = [(7, 1234, OTHER)]
    assert (others.gone(missing), others.doubtful) == ([], True)
    now_s += BACK_S
    assert (others.gone([]), others.doubtful) == ([], False), "it came back"
    assert others.gone(missing) == [], "and is missed anew"
    now_s += BACK_S
    troubled = True
    assert others.gone(missing) == [], "the server lost us too, so it may need longer"
    troubled = False
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
        living, _ = await one.owners.enlist(), await two.owners.enlist()
        await send(one, 5)
        claims = await claim(one, living)
        await lose_session(one)
        assert await two.deliveries.reclaim() == 0
        assert await one.deliveries.reclaim() == 0, "nor does it take its own"
        await asyncio.sleep(BACK_S)
        assert await two.deliveries.reclaim() == 0
        assert await end(one, living, claims) == set()


async def test_a_living_process_without_a_session_loses_its_work_when_its_lease_ends(
    server: Server, schema: str
) -> None:
    async with opened(server, schema) as one, opened(server, schema) as two:
        living, _ = await one.owners.enlist(), await two.owners.enlist()
        await send(one)
        claims = await claim(one, living, lease_s=1)
        await lose_session(one)
        async with asyncio.timeout(20):  # on a busy machine a thread may prolong it once or twice
            while await two.deliveries.reclaim() == 0:
                await asyncio.sleep(0.05)
        assert await end(one, living, claims) == {one.delivery.id for one in claims}


async def test_a_process_elsewhere_has_a_moment_to_come_back(server: Server, schema: str) -> None:
    async with opened(server, schema) as one, opened(server, schema) as two:
        away, _ = await one.owners.enlist(), await two.owners.enlist()
        woken: list[str] = []
        two.on_change(woken.append)
        await send(one)
        claims = await claim(one, away)
        await one._pool.rows("UPDATE {schema}.owners SET boot_id = $1 WHERE id = $2 RETURNING id", OTHER, away.id)
        await lose_session(one)
        assert await two.deliveries.reclaim() == 0
        await asyncio.sleep(BACK_S + 0.1)
        assert "owners" in woken, "the next look is not left to chance"
        assert await two.deliveries.reclaim() == 1
        assert await end(one, away, claims) == {one.delivery.id for one in claims}
