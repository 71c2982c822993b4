"""`holdfast db promote` while processes work: nothing is lost, repeated or reordered."""

from __future__ import annotations

import asyncio
import os
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from daemon import Daemon, run_cli, wait_until
from holdfast.config.promote_at import PromoteAt
from holdfast.domain.event import Event, new_event
from holdfast.domain.lane import lane_key
from holdfast.operations.doctor.queue import judge_queue
from holdfast.store.postgres.store import PostgresStore
from holdfast.store.roles.queue_admin import QueueKind, QueueLoad
from holdfast.store.roles.routing import Plan, RouteTarget
from postgres import Server, newest, start
from workers import Workers

pytest_plugins = ("postgres",)

LONG = bool(os.environ.get("HOLDFAST_LONG_TESTS"))
EVENTS = 100_000 if LONG else 10_000
STREAMS, BATCH = 200, 1000
HANDLER_S = 0.02
WAIT_S = 300.0


@pytest.fixture
def server() -> Server:
    return start(newest())


@pytest.fixture
def workers(server: Server, schema: str, tmp_path: Path) -> Iterator[Workers]:
    with Workers(server.url(schema), tmp_path / "notes") as some:
        yield some


async def fill(server: Server, schema: str) -> None:
    """A backlog that is routed and waits: half of it in lanes."""
    store = PostgresStore.open(server.url(schema))
    (queue,) = await store.contracts.queues()
    for first in range(0, EVENTS, BATCH):
        names = [f"s{n % STREAMS}" if n % 2 else None for n in range(first, first + BATCH)]
        await store.events.append([new_event("t", first + n, stream=name) for n, name in enumerate(names)])
        async with store.routing.batch(BATCH) as batch:
            assert await batch.commit([plan(event, queue.id) for event in batch.events])
    await store.close()


def plan(event: Event, queue: int) -> Plan:
    stream = None if event.stream == event.id else event.stream
    lane = lane_key("handler", "handler:h", "h", stream, True)
    return Plan(event.n, (RouteTarget(queue, "handler:h", "handler", lane),), 0)


@pytest.mark.slow
async def test_a_long_queue_moves_there_and_back_under_load(
    server: Server, schema: str, workers: Workers, tmp_path: Path
) -> None:
    url = server.url(schema)
    await asyncio.to_thread(workers.start)  # its contract exists from now on
    workers.stop()
    await fill(server, schema)
    for _ in range(2):
        await asyncio.to_thread(workers.start, HANDLER_S)
    said = []
    for kind in ("pgmq", "native", "pgmq"):
        before = workers.runs().total()
        await asyncio.to_thread(
            wait_until,
            lambda before=before: workers.runs().total() > min(before + EVENTS // 20, EVENTS - 1),
            WAIT_S,
            lambda: str(workers.runs()),
        )
        said.append(await asyncio.to_thread(run_cli, tmp_path, "db", "promote", "--to", kind, "--store", url, "--json"))
    assert [one.code for one in said] == [0, 0, 0], said
    assert [(one.json["before"], one.json["after"]) for one in said] == [
        ("native", "pgmq"), ("pgmq", "native"), ("native", "pgmq"),
    ]  # fmt: skip
    await asyncio.to_thread(
        wait_until, lambda: workers.runs().total() >= EVENTS, WAIT_S, lambda: f"{workers.runs()} of {EVENTS}"
    )
    numbers = defaultdict(list)
    for line in workers.text.splitlines():
        _, stream, number = line.split()
        if stream != "works":
            numbers[stream].append(int(number))
    assert {stream: found for stream, found in numbers.items() if found != sorted(set(found))} == {}
    handled = [number for found in numbers.values() for number in found]
    assert sorted(handled) == list(range(EVENTS))
    if LONG:
        assert said[0].json["rows"] > EVENTS // 4, "much of the backlog was moved"


def test_promote_says_what_it_did(server: Server, schema: str, tmp_path: Path) -> None:
    url = server.url(schema)
    assert run_cli(tmp_path, "db", "migrate", "--store", url).code == 0
    assert run_cli(tmp_path, "db", "promote", "--to", "native", "--store", url).out == "The queue is native already.\n"
    said = run_cli(tmp_path, "db", "promote", "--to", "pgmq", "--store", url)
    assert said.out == "The queue is pgmq now (it was native): 0 deliveries were moved.\n"
    with Daemon(tmp_path / "home", env={"HOLDFAST_STORE": f"pgmq+{url}"}) as daemon:
        assert daemon.request("GET", "/api/status")[1]["queue"] == "pgmq"
        assert run_cli(tmp_path, "db", "promote", "--to", "native", "--store", f"pgmq+{url}").code == 0
        assert daemon.request("GET", "/api/status")[1]["queue"] == "native", "it runs on"
        daemon.stop()
    refused = run_cli(tmp_path, "dlq", "count", "--store", f"pgmq+{url}")
    assert refused.code == 2
    assert "holdfast db promote --to pgmq" in refused.err


def test_a_sqlite_store_is_copied_first(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/app.db"
    assert run_cli(tmp_path, "db", "migrate", "--store", url).code == 0
    said = run_cli(tmp_path, "db", "promote", "--to", "pgmq", "--store", url)
    assert said.code == 2
    assert "holdfast db copy" in said.err


@pytest.mark.parametrize(
    ("load", "per_second", "level", "words"),
    [
        (QueueLoad(99, 0), 0.0, "ok", "no trigger"),
        (QueueLoad(100, 0), 0.0, "warn", "100 deliveries are in the queue (queue.promote_at.depth is 100)"),
        (QueueLoad(0, 0), 51.2, "warn", "51 events per second"),
        (QueueLoad(0, 5000), 0.0, "warn", "5,000 dead rows wait for vacuum"),
    ],
)
def test_doctor_recommends_the_move_when_a_trigger_is_reached(
    load: QueueLoad, per_second: float, level: str, words: str
) -> None:
    finding = judge_queue(QueueKind.NATIVE, load, per_second, PromoteAt(100, 50, 5000))
    assert (finding.level, words in finding.text) == (level, True), finding
    assert judge_queue(QueueKind.PGMQ, load, per_second, PromoteAt(100, 50, 5000)).level == "ok"


def test_doctor_reads_the_triggers_from_the_configuration(server: Server, schema: str, tmp_path: Path) -> None:
    url = server.url(schema)
    assert run_cli(tmp_path, "db", "migrate", "--store", url).code == 0
    (tmp_path / "holdfast.yml").write_text("queue: {promote_at: {depth: 1}}\n")
    said = run_cli(tmp_path, "doctor", "--store", url, "--json")
    (finding,) = [one for one in said.json["findings"] if one["id"] == "store.queue"]
    assert finding["level"] == "ok"
    asyncio.run(_fill(url))
    said = run_cli(tmp_path, "doctor", "--store", url, "--json")
    (finding,) = [one for one in said.json["findings"] if one["id"] == "store.queue"]
    assert (finding["level"], finding["todo"]) == ("warn", "run: holdfast db promote --to pgmq")


async def _fill(url: str) -> None:
    from pg_work import send

    store = PostgresStore.open(url)
    await send(store)
    await store.close()
