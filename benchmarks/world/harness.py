"""Runs the application of one library: creates its tables, places orders, or works until it is stopped.

An application is written as its users would write it; lines that exist only for this harness end with `# harness`. It
runs in its own environment, so nothing here imports Holdfast. The order is the first argument:
`{"role": "setup"}`, `{"role": "work"}` or `{"role": "place", "first": 0, "count": 100, "callers": 16, "rate": null}`.
"""

from __future__ import annotations

import asyncio
import json
import resource
import signal
import sys
import time
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

ITEM = "x" * 960


class App(Protocol):
    settings: str

    async def setup(self) -> None:
        """Create the library's tables."""

    async def open(self) -> None:
        """Connect, to place orders."""

    async def place(self, order: dict[str, object]) -> str | None:
        """Store an order and publish it, in one transaction. Returns the id of the webhook, or None for the default."""

    async def close(self) -> None: ...

    async def work(self) -> None:
        """Deliver until cancelled."""


async def place(app: App, first: int, count: int, callers: int, rate: float | None) -> dict[str, Any]:
    """Place orders: so many callers, each one after another, or with `rate` one every 1/rate seconds."""
    placed: list[tuple[str, float]] = []
    left = iter(range(first, first + count))

    async def one(number: int) -> None:
        called = time.time()
        id = await app.place({"id": number, "item": ITEM})
        placed.append((id or f"order-{number}", called))

    async def caller() -> None:
        for number in left:
            await one(number)

    async def paced() -> None:
        began = time.perf_counter()
        assert rate is not None
        for number in left:
            await asyncio.sleep(max(0.0, began + (number - first) / rate - time.perf_counter()))
            await one(number)

    before = _cpu_s()
    if rate is None:
        await asyncio.gather(*[caller() for _ in range(callers)])
    else:
        await paced()
    return {"placed": placed, "cpu_s": _cpu_s() - before}


async def _carry_out(app: App, order: dict[str, Any]) -> dict[str, Any]:
    answer: dict[str, Any] = {"settings": app.settings}
    match order.pop("role"):
        case "setup":
            await app.setup()
        case "place":
            await app.open()
            answer |= await place(app, **order)
            await app.close()
        case "work":
            working = asyncio.ensure_future(app.work())
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, working.cancel)
            await asyncio.gather(working, return_exceptions=True)
            if not working.cancelled() and (error := working.exception()) is not None:
                raise error
    return answer


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def run(app: App, runner: Callable[[Coroutine[Any, Any, Any]], Any] = asyncio.run) -> None:
    """`runner`: the event loop that the library recommends."""
    print(json.dumps(runner(_carry_out(app, json.loads(sys.argv[1])))), flush=True)
