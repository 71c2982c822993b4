"""The primary dies under load and its synchronous standby is promoted: nothing accepted is lost, order is exact."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from failover import Pair, replicated
from holdfast.domain.errors import StoreBusy
from holdfast.domain.event import new_event
from holdfast.operations.doctor.store import check_store
from holdfast.store.postgres.store import PostgresStore, prepare_database
from postgres import Server

pytest_plugins = ("postgres",)

WORKER = Path(__file__).parent.parent / "support" / "failover_worker.py"
STREAMS = 8
BEFORE, AFTER = 200, 200
WAIT_S = 90.0


@pytest.fixture
def pair() -> Iterator[Pair]:
    with replicated() as servers:
        yield servers


class Load:
    """Publishers, one for each stream, that repeat what was not acknowledged, as a user would."""

    def __init__(self, store: PostgresStore) -> None:
        self._store = store
        self.acknowledged: set[str] = set()
        self.errors: list[str] = []
        self.ending = False

    async def publish(self, stream: str) -> int:
        number = 0
        while not self.ending:
            number += 1
            event = new_event("t", number, stream=stream, dedup_key=f"{stream}/{number}")
            while True:
                try:
                    await self._store.events.append([event])
                    break
                except StoreBusy as error:
                    self.errors.append(error.message)
                    await asyncio.sleep(0.05)
            self.acknowledged.add(f"{stream} {number}")
        return number


def start_worker(url: str, notes: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, str(WORKER), url, str(notes)])


def delivered(notes: Path) -> list[tuple[str, str, int]]:
    """Process, stream and number of each run of the handler, in order."""
    lines = [line.split() for line in notes.read_text().splitlines()] if notes.exists() else []
    return [(pid, stream, int(number)) for pid, stream, number in lines if stream != "works"]


async def until(condition: object, what: str) -> None:
    deadline_s = time.monotonic() + WAIT_S
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline_s, what
        await asyncio.sleep(0.02)


@pytest.mark.slow
async def test_a_failover_under_load_loses_nothing_and_keeps_order(pair: Pair, tmp_path: Path) -> None:
    pair.make_synchronous()
    url, notes = pair.url("jobs"), tmp_path / "notes"
    await prepare_database(url)
    store, workers = PostgresStore.open(url), [start_worker(url, notes) for _ in range(2)]
    load = Load(store)
    try:
        await until(lambda: notes.exists() and notes.read_text().count("works") == 2, "the workers did not start")
        publishers = [asyncio.create_task(load.publish(f"s{number}")) for number in range(STREAMS)]
        await until(lambda: len(delivered(notes)) > BEFORE, "nothing was delivered before the failover")
        await asyncio.to_thread(pair.primary.kill)
        await until(lambda: load.errors, "the publishers saw no error")
        await asyncio.sleep(1.5)  # the outage: both processes are retrying
        old = len(delivered(notes))
        await asyncio.to_thread(pair.standby.promote)
        await until(lambda: len(delivered(notes)) > old, "nothing was delivered after the promotion")
        await until(lambda: len(delivered(notes)) > old + AFTER, "the workers did not continue")
        load.ending = True
        last = await asyncio.gather(*publishers)
        await until(
            lambda: len({run[1:] for run in delivered(notes)}) == sum(last), "not everything that was accepted arrived"
        )
        assert all(worker.poll() is None for worker in workers)
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()
    assert all("nothing is lost" in error for error in load.errors), set(load.errors)
    assert {f"{stream} {number}" for _, stream, number in delivered(notes)} >= load.acknowledged
    check_order(delivered(notes))
    for number, count in enumerate(last):
        page = await store.events.read(f"s{number}", 0, count + 10)
        assert [(event.seq, event.payload) for event in page] == [(seq, seq) for seq in range(1, count + 1)]
    await store.close()


async def test_a_host_that_answers_nothing_does_not_hide_the_next_one(server: Server, schema: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # the system accepts connections, and nothing answers
        hosts = f"host=127.0.0.1,{server.folder}&port={silent.getsockname()[1]},5432"
        store = PostgresStore.open(f"postgresql://postgres@/postgres?{hosts}&schema={schema}")
        await store.events.append([new_event("t")])
        assert store._pool._hosts._last == 1, "further connections start with the host that answered"
        await store.close()


def check_order(runs: list[tuple[str, str, int]]) -> None:
    """A number may be repeated while its end is not written, but never after the next one began."""
    seen: dict[str, int] = defaultdict(int)
    for _, stream, number in runs:
        assert number in (seen[stream], seen[stream] + 1), (stream, number, seen[stream])
        seen[stream] = number


@pytest.mark.slow
async def test_doctor_says_whether_replication_is_synchronous(pair: Pair) -> None:
    url = pair.url("jobs")
    store = PostgresStore.open(url)
    await store.events.append([new_event("first")])

    async def found() -> tuple[str, str]:
        (finding,) = [one for one in await check_store(url, 0) if one.id == "store.replication"]
        return finding.level, finding.text

    level, text = await found()
    assert (level, "asynchronous" in text) == ("warn", True)
    await asyncio.to_thread(pair.make_synchronous)
    level, text = await found()
    assert (level, "is synchronous (standby standby_b)" in text) == ("ok", True)
    await asyncio.to_thread(pair.standby.stop)
    await until(lambda: not pair.primary.rows("SELECT 1 FROM pg_stat_replication"), "it is still there")
    level, text = await found()
    assert (level, "every commit waits" in text) == ("fail", True)
    await asyncio.to_thread(pair.primary.alter, "synchronous_standby_names = ''")
    await until(lambda: not pair.primary.rows("SHOW synchronous_standby_names")[0][0], "the setting was not read")
    level, text = await found()
    assert (level, "no standby is connected" in text) == ("warn", True)
    await store.close()


@pytest.mark.slow
async def test_without_a_server_that_accepts_writes_the_error_says_so(pair: Pair) -> None:
    store = PostgresStore.open(pair.url("jobs"))
    await store.events.append([new_event("first")])
    await asyncio.to_thread(pair.primary.kill)
    with pytest.raises(StoreBusy):  # the call that finds its connection gone
        await store.events.append([new_event("second")])
    with pytest.raises(StoreBusy, match=r"no server of the store's URL accepts writes now.*retries"):
        await store.events.append([new_event("second")])
    await asyncio.to_thread(pair.standby.promote)
    await store.events.append([new_event("third")])
    await store.close()
