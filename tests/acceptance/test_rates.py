"""Rates and limits over several daemons hold for all of them together. A receiver that hangs delays no other."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from aiohttp import web

from daemon import Daemon
from postgres import fresh_schema, newest, start
from sink import Sink

pytest_plugins = ("postgres",)

RATE = 10
EVENTS = 100
LATE_S = 1.0  # by so much the first arrival may come after its moment; any other delay only makes the run longer
CONFIG = "egress: {allow: [127.0.0.0/8]}\n"


@contextmanager
def two_daemons(folder: Path) -> Iterator[tuple[Daemon, Daemon]]:
    """On one PostgreSQL store."""
    env = {"HOLDFAST_STORE": start(newest()).url(fresh_schema())}
    with Daemon(folder / "a", config=CONFIG, env=env) as one, Daemon(folder / "b", config=CONFIG, env=env) as two:
        yield one, two


async def test_two_daemons_together_keep_to_a_contracts_rate(tmp_path: Path) -> None:
    """Each daemon has work for the whole rate. If each kept to it alone, the run would take half of its time."""
    arrivals: list[tuple[float, str]] = []

    async def note(request: web.Request) -> web.Response:
        arrivals.append((time.monotonic(), json.loads(await request.read())["id"]))
        return web.Response()

    with two_daemons(tmp_path) as daemons:
        async with Sink(note) as sink:
            one = {"id": "slow", "target": {"url": sink.url}, "type_criterion": {"match": "a.b"}, "rate": f"{RATE}/s"}
            assert (await asyncio.to_thread(daemons[0].request, "POST", "/hooks/contracts", one))[0] == 201

            def publish(daemon: Daemon) -> None:
                for _ in range(EVENTS // 2):
                    assert daemon.request("POST", "/api/events", {"type": "a.b"})[0] == 201

            await asyncio.gather(*(asyncio.to_thread(publish, daemon) for daemon in daemons))
            await sink.wait_for(EVENTS, timeout=300)
    times = [at for at, _ in arrivals]
    assert times[-1] - times[0] >= (EVENTS - 1) / RATE - LATE_S
    assert len({id for _, id in arrivals}) == EVENTS, "nothing came twice"


async def test_two_daemons_together_keep_to_a_contracts_concurrency_and_use_it(tmp_path: Path) -> None:
    under_way = most = 0
    all_at_once = asyncio.Event()

    async def count(request: web.Request) -> web.Response:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        if under_way == 3:
            all_at_once.set()
        async with asyncio.timeout(60):
            await all_at_once.wait()
        await asyncio.sleep(0.02)
        under_way -= 1
        return web.Response()

    with two_daemons(tmp_path) as daemons:
        async with Sink(count) as sink:
            one = {"id": "few", "target": {"url": sink.url}, "type_criterion": {"match": "a.b"}, "concurrency": 3}
            assert (await asyncio.to_thread(daemons[0].request, "POST", "/hooks/contracts", one))[0] == 201

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
                contracts = [contract("hangs", hanging.url)]
                contracts += [contract(f"c{number}", f"{good.url}/{number}") for number in range(others)]
                for one in contracts:
                    assert daemon.request("POST", "/hooks/contracts", one)[0] == 201
                for number in range(events):
                    assert daemon.request("POST", "/api/events", {"type": "a.b", "payload": number})[0] == 201

            await asyncio.to_thread(prepare)
            received = await good.wait_for(events * others, timeout=60)
            assert len({(got.path, json.loads(got.body)["payload"]) for got in received}) == events * others
            assert 1 <= asked <= 16, "it holds no more than a contract may have under way"
            answered = daemon.request("GET", "/api/deliveries?contract=hangs&limit=100")[1]["items"]
            assert {item["state"] for item in answered} == {"pending"}
            released.set()
