"""Holdfast itself: accept, drain, the whole path, and the time from commit to handler."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from holdfast.daemon.config import load_config
from holdfast.daemon.wiring import House
from holdfast.domain.address import parse_address
from holdfast.domain.contract import Contract, Criterion
from holdfast.domain.event import NewEvent, new_event
from holdfast.store.base import Store
from holdfast.store.open import open_store

PAYLOAD = {"text": "x" * 980}
CONTRACT = Contract(
    "bench", parse_address("handler:bench"), type_criterion=Criterion(pattern="bench.*"), source="programmatic"
)


def fact() -> NewEvent:
    return new_event("bench.event", PAYLOAD)


def fresh(folder: Path) -> Store:
    return open_store(f"sqlite:///{folder}/bench-{time.monotonic_ns()}.db", keep=True)


def accept(folder: Path, callers: int, each: int) -> float:
    """Events accepted per second, each caller waiting for its own commit."""

    async def run() -> float:
        store = fresh(folder)

        async def caller() -> None:
            for _ in range(each):
                await store.events.append([fact()])

        began = time.perf_counter()
        await asyncio.gather(*[caller() for _ in range(callers)])
        rate = callers * each / (time.perf_counter() - began)
        await store.close()
        return rate

    return asyncio.run(run())


def drain(folder: Path, count: int) -> float:
    """Deliveries per second, claimed, handled by a no-op and settled with receipts, from a backlog."""

    async def run() -> float:
        store = fresh(folder)
        await store.contracts.put(CONTRACT, None)
        handled = _Counter(count)
        house = House(store, load_config(None), None, handlers={"bench": handled}, contracts=[CONTRACT])
        for start in range(0, count, 500):
            await store.events.append([fact() for _ in range(min(500, count - start))])
        await _route_all(store)
        began = time.perf_counter()
        await house.start()
        await handled.reached.wait()
        while house.engine.delivered < count:
            await asyncio.sleep(0.001)
        rate = count / (time.perf_counter() - began)
        await house.stop()
        return rate

    return asyncio.run(run())


def whole_path(folder: Path, count: int) -> float:
    """Events per second from accept through routing and handling to the settled receipt, all at once."""

    async def run() -> float:
        store = fresh(folder)
        handled = _Counter(count)
        house = House(store, load_config(None), None, handlers={"bench": handled}, contracts=[CONTRACT])
        await house.start()
        began = time.perf_counter()
        for start in range(0, count, 200):
            await store.events.append([fact() for _ in range(min(200, count - start))])
        await handled.reached.wait()
        while house.engine.delivered < count:
            await asyncio.sleep(0.001)
        rate = count / (time.perf_counter() - began)
        await house.stop()
        return rate

    return asyncio.run(run())


def latencies(folder: Path, count: int) -> list[float]:
    """Milliseconds from the accepting commit to the start of the handler, light load."""

    async def run() -> list[float]:
        store = fresh(folder)
        started = asyncio.Event()

        async def handler(event: object) -> None:
            started.set()

        house = House(store, load_config(None), None, handlers={"bench": handler}, contracts=[CONTRACT])
        await house.start()
        times = []
        for _ in range(count):
            started.clear()
            await store.events.append([fact()])
            began = time.perf_counter()
            await started.wait()
            times.append((time.perf_counter() - began) * 1000)
            await asyncio.sleep(0.005)
        await house.stop()
        return times

    return asyncio.run(run())


class _Counter:
    """A handler that does nothing but count."""

    def __init__(self, wanted: int) -> None:
        self._left = wanted
        self.reached = asyncio.Event()

    async def __call__(self, event: object) -> None:
        self._left -= 1
        if self._left <= 0:
            self.reached.set()


async def _route_all(store: Store) -> None:
    from holdfast.domain.retry import POLICIES
    from holdfast.routing.registry import Registry
    from holdfast.routing.router import Router

    router = Router(store.routing, Registry(store.contracts, POLICIES))
    while await router.tick() is not None:
        pass
