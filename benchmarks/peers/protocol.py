"""The protocol of the peer scripts: one order per process, one line of JSON as its result.

A peer's script runs in that peer's own environment, so no other script in this folder imports Holdfast. The order is
the first argument: `{"work": "drain", "url": "postgresql://…", "count": 1000, …}`. Every job is counted twice: by the
handler, and by what the database says is left.
"""

from __future__ import annotations

import asyncio
import json
import resource
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from typing import Any

PAYLOAD = {"text": "x" * 980}
TIMEOUT_S = 300.0
WARM = 20
PAUSE_S = 0.02


class Tally:
    """The no-op handler: it only records when it was called, from any thread."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def __call__(self) -> None:
        self.times.append(time.perf_counter())

    async def reach(self, count: int, every_s: float = 0.002) -> None:
        ends = time.monotonic() + TIMEOUT_S
        while len(self.times) < count:
            if time.monotonic() > ends:
                raise RuntimeError(f"only {len(self.times)} of {count} jobs were handled in {TIMEOUT_S:g} s")
            await asyncio.sleep(every_s)


class Peer(ABC):
    """One queue, used as its documentation recommends."""

    settings = ""

    def __init__(self, url: str, order: dict[str, Any]) -> None:
        self.url, self.order = url, order

    @abstractmethod
    async def open(self) -> None:
        """Connect, and create the tables."""

    @abstractmethod
    async def close(self) -> None: ...

    @abstractmethod
    async def one(self) -> None:
        """Enqueue one job and wait for its commit."""

    @abstractmethod
    async def many(self, count: int) -> None:
        """Enqueue so many jobs with the bulk call, and wait for the commit."""

    async def fill(self, count: int) -> None:
        """Fill a backlog of so many jobs in the fastest way."""
        size = int(self.order["size"])
        for start in range(0, count, size):
            await self.many(min(size, count - start))

    @abstractmethod
    async def work(self, handle: Callable[[], None]) -> None:
        """Start the worker in the background, with a handler that only calls `handle`."""

    @abstractmethod
    async def stop(self) -> None:
        """Stop the worker."""

    @abstractmethod
    async def left(self) -> int:
        """The number of unfinished jobs in the database."""

    @abstractmethod
    async def settle_in(self) -> None:
        """After a fill: update the statistics, which a database in use would have."""


async def single(peer: Peer, count: int) -> dict[str, Any]:
    warm = int(peer.order.get("warm", WARM))
    for _ in range(warm):
        await peer.one()
    began = time.perf_counter()
    for _ in range(count):
        await peer.one()
    seconds = time.perf_counter() - began
    await _expect(peer, warm + count)
    return {"seconds": seconds}


async def batch(peer: Peer, count: int) -> dict[str, Any]:
    size = int(peer.order["size"])
    await peer.many(WARM)
    began = time.perf_counter()
    for _ in range(count // size):
        await peer.many(size)
    seconds = time.perf_counter() - began
    await _expect(peer, WARM + count // size * size)
    return {"seconds": seconds, "done": count // size * size}


async def drain(peer: Peer, count: int) -> dict[str, Any]:
    """Timed from the first job handled to the last one settled in the database, without the worker's start."""
    await peer.fill(count)
    await _expect(peer, count)
    await peer.settle_in()
    tally = Tally()
    await peer.work(tally)
    await tally.reach(count)
    while await peer.left():
        await asyncio.sleep(0.002)
    seconds = time.perf_counter() - tally.times[0]
    await peer.stop()
    if len(tally.times) != count:
        raise RuntimeError(f"{count} jobs were enqueued and {len(tally.times)} handled")
    return {"seconds": seconds}


async def latency(peer: Peer, count: int) -> dict[str, Any]:
    """Milliseconds to the handler's start: from the return of the enqueue (the commit), and from its call."""
    tally = Tally()
    await peer.work(tally)
    await asyncio.sleep(1.0)  # let the worker become idle
    after_commit, after_call = [], []
    for number in range(1, WARM + count + 1):
        called = time.perf_counter()
        await peer.one()
        committed = time.perf_counter()
        await tally.reach(number, 0.001)
        if number > WARM:
            after_commit.append(max(0.0, (tally.times[-1] - committed) * 1000))
            after_call.append((tally.times[-1] - called) * 1000)
        await asyncio.sleep(PAUSE_S)
    await peer.stop()
    if len(tally.times) != WARM + count:
        raise RuntimeError(f"{WARM + count} jobs were enqueued and {len(tally.times)} handled")
    return {"after_commit_ms": after_commit, "after_call_ms": after_call}


async def _expect(peer: Peer, count: int) -> None:
    if (left := await peer.left()) != count:
        raise RuntimeError(f"{count} jobs were enqueued and the database has {left}")


WORKS: dict[str, Callable[[Peer, int], Coroutine[Any, Any, dict[str, Any]]]] = {
    "single": single,
    "batch": batch,
    "drain": drain,
    "latency": latency,
}


def cost() -> dict[str, float]:
    """CPU seconds of this process so far."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return {"cpu_s": used.ru_utime + used.ru_stime, "rss_mb": _rss_mb(used.ru_maxrss)}


def _rss_mb(maximum: int) -> float:
    """Peak memory. Not `ru_maxrss`: on Linux that includes the memory of the parent before the start."""
    try:
        with open("/proc/self/status", encoding="ascii") as status:
            return next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmHWM"))
    except (OSError, StopIteration):
        return maximum / (1024 if sys.platform != "darwin" else 1 << 20)


def answer(peer_type: type[Peer], run: Callable[[Coroutine[Any, Any, Any]], Any] = asyncio.run) -> None:
    """Carry out the order of the command line. `run`: the event loop the peer recommends."""
    order = json.loads(sys.argv[1])

    async def carry_out() -> dict[str, Any]:
        peer = peer_type(order["url"], order)
        await peer.open()
        try:
            measured = await WORKS[order["work"]](peer, int(order["count"]))
        except NotImplementedError as error:
            return {"unsupported": str(error), "settings": peer.settings}
        finally:
            await peer.close()
        return {"done": int(order["count"]), "settings": peer.settings, **measured, **cost()}

    measured = run(carry_out())
    print(json.dumps(measured), flush=True)
