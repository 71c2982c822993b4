"""Outgoing webhooks: signed and stored, compared with a bare client; and the effect of one hanging receiver.

python -m benchmarks.webhooks
"""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from concurrent.futures import ProcessPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import aiohttp

from benchmarks import nginx
from benchmarks.alone import alone
from benchmarks.goals import outward
from benchmarks.measure import Results, percentile
from benchmarks.server import Server
from benchmarks.sizes import Sizes
from holdfast.config.config import load_config
from holdfast.daemon.runtime import Runtime
from holdfast.domain.address import parse_address
from holdfast.domain.contract import Contract
from holdfast.domain.event import NewEvent, new_event
from holdfast.domain.retry import POLICIES
from holdfast.domain.signature import sign
from holdfast.net.answer import Answer
from holdfast.net.client import Client
from holdfast.net.guard import Guard
from holdfast.routing.registry import Registry
from holdfast.routing.router import Router
from holdfast.store.open import open_store
from holdfast.store.roles.operator import DeliveryFilter

IN_FLIGHT = 64
RECEIVERS = 100
PAGE = 1_000
BATCH = 500
EVERY_S = 0.2  # well below the capacity of the machine: otherwise queueing would hide the effect of the receivers
SECRET = "whsec_" + "YmVuY2htYXJr" * 3
PAYLOAD = {"text": "x" * 1000}


def measure(results: Results, folder: Path, server: Server | None, sizes: Sizes) -> None:
    """Measure the candidates alternately."""
    with nginx.running() as url:
        for _ in range(sizes.times):
            for name, work in (("bare client", _bare), ("own client, bare", _own), ("holdfast", _drain)):
                results.add(f"webhooks.{name}", _apart(work, url, sizes.webhooks), "/s")
            for name, hangs in (("all well", False), ("one hangs", True)):
                results.add(f"webhooks.p99 of others, {name}", _apart(_spread, url, sizes.hanging, hangs), "ms")


def _apart(work: Callable[..., Coroutine[Any, Any, float]], *values: object) -> float:
    """Run in a separate process, so that memory of one measurement does not affect the next."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(_run, work, values).result()


def _run(work: Callable[..., Coroutine[Any, Any, float]], values: tuple[object, ...]) -> float:
    return asyncio.run(work(*values))


async def _bare(url: str, count: int) -> float:
    """aiohttp alone: the same signed bodies, so many at a time, without a store."""
    left = iter(range(count))
    connector = aiohttp.TCPConnector(limit=IN_FLIGHT)
    async with aiohttp.ClientSession(connector=connector, auto_decompress=False) as session:

        async def work() -> None:
            for number in left:
                body, headers = _signed(number)
                async with session.post(f"{url}/hook", data=body, headers=headers, allow_redirects=False) as answer:
                    assert answer.status == 200
                    await answer.read()

        began = time.perf_counter()
        await asyncio.gather(*(work() for _ in range(IN_FLIGHT)))
        return count / (time.perf_counter() - began)


async def _own(url: str, count: int) -> float:
    """The same with Holdfast's client."""
    left = iter(range(count))
    client = Client(Guard(["127.0.0.0/8"]), None, 5.0)
    route = client.route(f"{url}/hook", False)

    async def work() -> None:
        for number in left:
            body, headers = _signed(number)
            answer = Answer()
            with client.timeout(answer, total_s=30.0, silence_s=15.0):
                await client.post(route, headers, body, answer)
            assert answer.status == 200

    began = time.perf_counter()
    await asyncio.gather(*(work() for _ in range(IN_FLIGHT)))
    taken_s = time.perf_counter() - began
    await client.close()
    return count / taken_s


def _signed(number: int) -> tuple[bytes, dict[str, str]]:
    body = json.dumps({"id": f"evt_{number}", "type": "bench.sent", "payload": PAYLOAD}).encode()
    return body, {
        "Content-Type": "application/json",
        **sign([SECRET], f"evt_{number}", int(time.time()), body),
    }


async def _drain(url: str, count: int) -> float:
    """From the first of the stored events that is settled until the last: as drains are timed, without the start."""
    contract = Contract("bench", parse_address(f"{url}/hook"), source="programmatic", concurrency=IN_FLIGHT)
    with tempfile.TemporaryDirectory(prefix="hf-bench-") as folder:
        place = f"sqlite:///{folder}/bench.db"
        await _fill(place, [contract], count)
        runtime = Runtime(open_store(place, keep=True), load_config(None), None)
        await runtime.start()
        try:
            while (first := runtime.engine.delivered) == 0:
                await asyncio.sleep(0.001)
            began = time.perf_counter()
            while runtime.engine.delivered < count:
                assert runtime.engine.failed == 0, "the receiver did not get every request"
                await asyncio.sleep(0.002)
            return (count - first) / (time.perf_counter() - began)
        finally:
            await runtime.stop()


async def _spread(url: str, count: int, hangs: bool) -> float:
    """p99 in ms from accepted to settled at 99 receivers; the hundredth receiver may hang."""
    async with _hanging() as dead:
        urls = [f"{url}/{number}" for number in range(RECEIVERS - 1)] + [dead if hangs else f"{url}/last"]
        contracts = [
            Contract(f"c{number}", parse_address(one), source="programmatic") for number, one in enumerate(urls)
        ]
        with tempfile.TemporaryDirectory(prefix="hf-bench-") as folder:
            place = f"sqlite:///{folder}/bench.db"
            await _fill(place, contracts, 0)
            config = replace(load_config(None), grace_s=0.1)
            runtime = Runtime(open_store(place, keep=True), config, None)
            await runtime.start()
            try:
                for _ in range(count):
                    await runtime.store.events.append(_events(1))
                    await asyncio.sleep(EVERY_S)
                wanted = count * (RECEIVERS - 1)
                while runtime.engine.delivered < wanted:
                    await asyncio.sleep(0.01)
                return percentile(await _latencies(runtime, RECEIVERS - 1), 0.99)
            finally:
                await runtime.stop()


async def _fill(place: str, contracts: list[Contract], count: int) -> None:
    """A store with these contracts and so many routed, pending events."""
    store = open_store(place, keep=True)
    try:
        for contract in contracts:
            await store.contracts.put(contract, SECRET)
        for first in range(0, count, BATCH):
            await store.events.append(_events(min(BATCH, count - first)))
        registry = Registry(store.contracts, POLICIES)
        await registry.refresh()
        router = Router(store.routing, registry)
        while await store.routing.backlog():
            await router.tick()
    finally:
        await store.close()


async def _latencies(runtime: Runtime, receivers: int) -> list[float]:
    found: list[float] = []
    for number in range(receivers):
        page = await runtime.store.operator.deliveries(DeliveryFilter(contract=f"c{number}"), None, PAGE)
        found += [float(row.settled_at_ms - row.created_at_ms) for row in page.items if row.settled_at_ms is not None]
    return found


@asynccontextmanager
async def _hanging() -> AsyncIterator[str]:
    """A receiver that accepts every connection and never answers."""
    writers: list[asyncio.StreamWriter] = []
    server = await asyncio.start_server(lambda reader, writer: writers.append(writer), "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/hook"
    finally:
        for writer in writers:
            writer.close()
        server.close()


def _events(count: int) -> list[NewEvent]:
    return [new_event("bench.sent", PAYLOAD) for _ in range(count)]


if __name__ == "__main__":
    alone(measure, outward())
