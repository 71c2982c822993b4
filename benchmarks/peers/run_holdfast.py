"""Holdfast, with the same orders as its peers, on either store; and orders that only Holdfast supports."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from protocol import PAYLOAD, WORKS, Peer, Tally, answer, cost
from sampling import Sampling

from holdfast.config.config import load_config
from holdfast.daemon.loop import Loop
from holdfast.daemon.runtime import Runtime
from holdfast.domain.address import parse_address
from holdfast.domain.contract import Contract, Criterion
from holdfast.domain.delivery import Claim, Delivered, Settlement, settle
from holdfast.domain.event import NewEvent, new_event
from holdfast.domain.retry import POLICIES
from holdfast.egress.lease_renewal import lease_times_ms
from holdfast.operations.duties.checkpointer import Checkpointer
from holdfast.ports import SystemChance
from holdfast.routing.registry import Registry
from holdfast.routing.router import Router
from holdfast.store.open import is_postgres, open_store
from holdfast.store.postgres.place import parse_place
from holdfast.store.roles.deliveries import ClaimRequest, Served

APPEND_MAX = 500
CLAIM = 100
CHECKPOINT_POLL_S = 60.0


class Holdfast(Peer):
    settings = "as it comes"

    async def open(self) -> None:
        self.store = open_store(self.url, keep=True)
        self._contract = Contract(
            "bench",
            parse_address("handler:bench"),
            type_criterion=Criterion(pattern="bench.*"),
            source="programmatic",
            ordered=bool(self.order.get("streams")),
        )
        self._runtime: Runtime | None = None
        self._stopped = False

        self._duties = Loop(SystemChance())
        if self.order["work"] in ("single", "callers") and not is_postgres(self.url):
            self._duties.add(Checkpointer(self.store.maintenance), CHECKPOINT_POLL_S)  # as the daemon does

    async def close(self) -> None:
        await self._duties.stop()
        if not self._stopped:
            await self.store.close()

    async def one(self) -> None:
        await self.store.events.append([self.event(0)])

    async def many(self, count: int) -> None:
        await self.store.events.append([self.event(number) for number in range(count)])

    async def settle_in(self) -> None:
        if self.order.get("routed", True):
            await self.route()
        if is_postgres(self.url):
            import asyncpg

            connection = await asyncpg.connect(parse_place(self.url).dsn)
            await connection.execute("ANALYZE")
            await connection.close()

    async def work(self, handle: Callable[[], None]) -> None:
        async def noop(event: object) -> None:
            handle()

        handlers, contracts = {"bench": noop}, [self._contract]
        self._runtime = Runtime(self.store, load_config(None), None, handlers=handlers, contracts=contracts)
        await self._runtime.start()

    async def stop(self) -> None:
        if self._runtime is not None:
            await self._runtime.stop()
            self._stopped = True

    async def left(self) -> int:
        figures = await self.store.operator.figures()
        return figures.unrouted + figures.pending

    def event(self, number: int) -> NewEvent:
        streams, size = self.order.get("streams"), self.order.get("bytes")
        payload = PAYLOAD if size is None else {"text": "x" * max(0, int(size) - 12)}
        return new_event("bench.event", payload, stream=f"s:{number % int(streams)}" if streams else None)

    async def route(self) -> None:
        await self.store.contracts.put(self._contract, None)
        router = Router(self.store.routing, Registry(self.store.contracts, POLICIES))
        while await router.tick() is not None:
            pass

    def delivered(self) -> int:
        assert self._runtime is not None
        return self._runtime.engine.delivered


async def callers(peer: Peer, count: int) -> dict[str, Any]:
    """Many concurrent callers, each waiting for its own commit."""
    number = int(peer.order["callers"])

    async def caller(count: int) -> None:
        for _ in range(count // number):
            await peer.one()

    await asyncio.gather(*[caller(int(peer.order.get("warm", 0))) for _ in range(number)])
    began = time.perf_counter()
    await asyncio.gather(*[caller(count) for _ in range(number)])
    return {"seconds": time.perf_counter() - began, "done": count // number * number}


async def whole(peer: Peer, count: int) -> dict[str, Any]:
    """Accept, route, handle and settle with receipts concurrently, in batches of 200."""
    assert isinstance(peer, Holdfast)
    tally = Tally()
    await peer.work(tally)
    profile = Sampling() if peer.order.get("profile") else None
    if profile is not None:
        profile.start()
    before, written, began = cost()["cpu_s"], written_bytes(), time.perf_counter()
    for start in range(0, count, 200):
        await peer.many(min(200, count - start))
    await tally.reach(count)
    while peer.delivered() < count:
        await asyncio.sleep(0.001)
    seconds = time.perf_counter() - began
    used = {"work_cpu_s": cost()["cpu_s"] - before, "written_bytes": written_bytes() - written}
    shares = {} if profile is None else {"profile": profile.stop()}
    await peer.stop()
    return {"seconds": seconds, **used, **shares}


def written_bytes() -> int:
    """What this process has written to disks so far; 0 where the kernel does not say."""
    try:
        lines = Path("/proc/self/io").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("write_bytes:"))
    except (OSError, StopIteration):
        return 0


async def some(peer: Peer, count: int) -> dict[str, Any]:
    """Drain the first `count` deliveries of an existing backlog."""
    assert isinstance(peer, Holdfast)
    tally = Tally()
    before = cost()["cpu_s"]
    await peer.work(tally)
    await tally.reach(count, 0.005)
    seconds, cpu_s = tally.times[count - 1] - tally.times[0], cost()["cpu_s"] - before
    handled = len(tally.times)
    await peer.stop()
    return {"seconds": seconds, "work_cpu_s": cpu_s * count / handled}


async def claims(peer: Peer, count: int) -> dict[str, Any]:
    """Milliseconds of each claim of 100. The claims are settled outside the measured time."""
    assert isinstance(peer, Holdfast)
    deliveries, policy = peer.store.deliveries, POLICIES["hook"]
    owner = await peer.store.owners.register()
    lease_ms, served = lease_times_ms(), Served(frozenset(), frozenset({"handler:bench"}))
    request = ClaimRequest(owner.id, served, CLAIM, lease_ms, {}, dict.fromkeys(lease_ms, CLAIM))

    def settlement(claim: Claim, now_ms: int) -> Settlement:
        transition = settle(claim.delivery.attempts, Delivered(), policy, now_ms, 0.0)
        return Settlement(claim, transition, started_at_ms=now_ms, outcome="delivered")

    times = []
    for number in range(count + 5):
        began = time.perf_counter()
        claimed = (await deliveries.claim(request)).claims
        took_ms = (time.perf_counter() - began) * 1000
        if len(claimed) != CLAIM:
            raise RuntimeError(f"a claim of {CLAIM} returned {len(claimed)}")
        if lost := await deliveries.settle(owner, [settlement(claim, time.time_ns() // 10**6) for claim in claimed]):
            raise RuntimeError(f"{len(lost)} settlements lost their lease")
        if number >= 5:
            times.append(took_ms)
    await peer.store.owners.retire(owner)
    return {"claim_ms": times}


async def path(peer: Peer, count: int) -> dict[str, Any]:
    """Accept, route and deliver, one after another, with the CPU time per event over all three."""
    assert isinstance(peer, Holdfast)
    size = int(peer.order["size"])
    started, began = cost()["cpu_s"], time.perf_counter()
    for start in range(0, count, size):
        end = min(start + size, count)
        await peer.store.events.append([peer.event(number) for number in range(start, end)])
    accepted = time.perf_counter()
    await peer.route()
    routed = time.perf_counter()
    tally = Tally()
    await peer.work(tally)
    await tally.reach(count, 0.005)
    while peer.delivered() < count:
        await asyncio.sleep(0.001)
    delivered = time.perf_counter()
    cpu_s = cost()["cpu_s"] - started
    await peer.stop()
    return {
        "accept_s": accepted - began,
        "route_s": routed - accepted,
        "drain_s": delivered - tally.times[0],
        "work_cpu_s": cpu_s,
    }


WORKS |= {"callers": callers, "whole": whole, "some": some, "claims": claims, "path": path}
answer(Holdfast)
