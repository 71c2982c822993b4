"""Rates and patience over several daemons: no receiver is hurried by two, and nobody waits for one that hangs."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from daemon import Daemon
from postgres import fresh_schema, newest, start
from sink import Sink

pytest_plugins = ("postgres",)

RATE = 10
USED = 7.0  # a second: the rate is kept to, and it is used
STILL_S = 0.08
LATE = {15: 2, 60: 0}  # in a second: the short run must bear a busy machine; were the rate not shared it would be RATE
LATE_MAX = 16  # over all: as many as a contract may have under way
CONFIG = "egress: {allow: [127.0.0.0/8]}\n"


@contextmanager
def two_daemons(folder: Path) -> Iterator[tuple[Daemon, Daemon]]:
    """On one PostgreSQL store."""
    env = {"HOLDFAST_STORE": start(newest()).url(fresh_schema())}
    with Daemon(folder / "a", config=CONFIG, env=env) as one, Daemon(folder / "b", config=CONFIG, env=env) as two:
        yield one, two


def most_in_a_second(times: Sequence[float]) -> int:
    """The largest number that any sliding second holds.

    >>> most_in_a_second([0.0, 0.5, 0.99, 1.0, 1.2])
    3
    """
    most, first = 0, 0
    for last, at in enumerate(times):
        while at - times[first] >= 1.0:
            first += 1
        most = max(most, last - first + 1)
    return most


async def lags(found: list[tuple[float, float]]) -> None:
    """When, and how long, this process itself stood still: what it read then may have come earlier than it can tell."""
    while True:
        began = time.monotonic()
        await asyncio.sleep(0.005)
        late = time.monotonic() - began - 0.005
        if late > STILL_S:
            found.append((began, time.monotonic()))


def between(times: Sequence[float], still: Sequence[tuple[float, float]]) -> list[list[float]]:
    """The arrivals in stretches during which this process was awake."""
    edges = [0.0, *(end for _, end in still), float("inf")]
    return [[at for at in times if begin <= at < end] for begin, end in pairwise(edges)]


@pytest.mark.parametrize("seconds", [15, pytest.param(60, marks=pytest.mark.slow)])
async def test_two_daemons_together_keep_to_a_contracts_rate_and_use_it(tmp_path: Path, seconds: int) -> None:
    arrivals: list[tuple[float, str]] = []
    still: list[tuple[float, float]] = []

    async def note(request: web.Request) -> web.Response:
        arrivals.append((time.monotonic(), json.loads(await request.read())["id"]))
        return web.Response()

    with two_daemons(tmp_path) as daemons:
        async with Sink(note) as sink:
            wish = {"id": "slow", "target": {"url": sink.url}, "type_criterion": {"match": "a.b"}, "rate": f"{RATE}/s"}
            assert (await asyncio.to_thread(daemons[0].request, "POST", "/hooks/contracts", wish))[0] == 201
            watch = asyncio.create_task(lags(still))

            def publish(daemon: Daemon) -> None:
                for _ in range(seconds * RATE):  # each brings all that the receiver would take
                    assert daemon.request("POST", "/api/events", {"type": "a.b"})[0] == 201

            load = asyncio.gather(*(asyncio.to_thread(publish, daemon) for daemon in daemons))
            await sink.wait_for(1, timeout=30)
            began = time.monotonic()
            await asyncio.sleep(seconds)
            counted = [at for at, _ in arrivals if began <= at <= began + seconds]
            watch.cancel()
            await load
            times = [at for at, _ in arrivals]
    assert len(times) <= RATE * (times[-1] - times[0]) + LATE_MAX, "over all of it the rate is kept on any machine"
    for stretch in between(times, still):
        assert most_in_a_second(stretch) <= RATE + LATE[seconds]
    assert len(counted) >= USED * seconds
    assert len({id for _, id in arrivals}) == len(arrivals), "nothing came twice"


async def test_two_daemons_together_keep_to_a_contracts_concurrency_and_use_it(tmp_path: Path) -> None:
    under_way = most = 0

    async def count(request: web.Request) -> web.Response:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0.02)
        under_way -= 1
        return web.Response()

    with two_daemons(tmp_path) as daemons:
        async with Sink(count) as sink:
            wish = {"id": "few", "target": {"url": sink.url}, "type_criterion": {"match": "a.b"}, "concurrency": 3}
            assert (await asyncio.to_thread(daemons[0].request, "POST", "/hooks/contracts", wish))[0] == 201

            def publish(daemon: Daemon) -> None:
                for _ in range(60):
                    assert daemon.request("POST", "/api/events", {"type": "a.b"})[0] == 201

            await asyncio.gather(*(asyncio.to_thread(publish, daemon) for daemon in daemons))
            await sink.wait_for(120, timeout=60)
    assert most == 3


async def test_one_receiver_that_hangs_holds_up_none_of_a_hundred(tmp_path: Path) -> None:
    """The others have everything before the one that hangs has answered a single request."""
    events, others = 10, 99
    released = asyncio.Event()
    asked = 0

    async def hang(request: web.Request) -> web.Response:
        nonlocal asked
        asked += 1
        await released.wait()
        return web.Response(status=503)

    def contract(id: str, url: str) -> dict[str, Any]:
        return {"id": id, "target": {"url": url}, "type_criterion": {"match": "a.b"}}

    async with Sink() as good, Sink(hang) as hanging:
        with Daemon(tmp_path / "home", config=CONFIG) as daemon:

            def prepare() -> None:
                wishes = [contract("hangs", hanging.url)]
                wishes += [contract(f"c{number}", f"{good.url}/{number}") for number in range(others)]
                for wish in wishes:
                    assert daemon.request("POST", "/hooks/contracts", wish)[0] == 201
                for number in range(events):
                    assert daemon.request("POST", "/api/events", {"type": "a.b", "payload": number})[0] == 201

            await asyncio.to_thread(prepare)
            received = await good.wait_for(events * others, timeout=60)
            assert len({(got.path, json.loads(got.body)["payload"]) for got in received}) == events * others
            assert 1 <= asked <= 16, "it holds no more than a contract may have under way"
            answered = daemon.request("GET", "/api/deliveries?contract=hangs&limit=100")[1]["items"]
            assert {item["state"] for item in answered} == {"pending"}
            released.set()
