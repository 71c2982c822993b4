"""Deliveries that were in flight at two crashes are retried one at a time, without waiting between them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from holdfast.domain.contract import Terms, default_terms
from holdfast.domain.delivery import SUSPECT_STARTS, Claim, Delivered, Outcome
from holdfast.domain.retry import POLICIES
from holdfast.egress.deliverer import Attempt
from holdfast.egress.engine import POLL_S, Engine
from holdfast.ports import Chance, Clock, SystemChance
from holdfast.store.sqlite.store import SqliteStore, inline_executor
from holdfast.testing.suite.harness import Harness

COUNT = 20


class Watcher:
    """A slow deliverer that records how many deliveries run at the same time."""

    kind = "handler"

    def __init__(self) -> None:
        self.delivered: list[int] = []
        self.at_a_time, self._now = 0, 0

    def serves(self) -> None:
        return None

    async def deliver(self, claim: Claim, attempt: Attempt) -> Outcome:
        self._now += 1
        self.at_a_time = max(self.at_a_time, self._now)
        await asyncio.sleep(0)
        self._now -= 1
        self.delivered.append(claim.delivery.id)
        return Delivered()

    async def close(self) -> None:
        pass


async def open_harness(folder: Path) -> Harness:
    async def open_store(name: str, clock: Clock, chance: Chance, keep: bool) -> SqliteStore:
        return SqliteStore.open(folder / f"{name}.db", keep=keep, clock=clock, chance=chance, executor=inline_executor)

    return await Harness.start(open_store)


def make_engine(harness: Harness, watcher: Watcher, **more: int) -> Engine:
    def terms_of(contract_id: str | None, kind: str) -> Terms:
        return default_terms(kind, POLICIES)

    return Engine(
        harness.store.deliveries, harness.owner, {"handler": watcher}, terms_of, harness.clock, SystemChance(), **more
    )  # fmt: skip


async def idle_waits(engine: Engine, done: Callable[[], bool]) -> int:
    """Run the engine until `done`. Returns how often it waited for the poll although work was due."""
    waits = 0
    for _ in range(COUNT * 20):
        if done():
            return waits
        delay = await engine.tick()
        waits += delay is not None and delay >= POLL_S and engine.in_flight == 0
        await asyncio.sleep(0)
    raise AssertionError("the engine did not come to an end")


async def test_suspects_are_tried_one_at_a_time_and_one_after_another(tmp_path: Path) -> None:
    harness, watcher = await open_harness(tmp_path), Watcher()
    await harness.contract()
    for _ in range(COUNT):
        await harness.emit()
    await harness.route()
    for _ in range(SUSPECT_STARTS):
        assert len(await harness.claim()) == COUNT
        await harness.crash()
    engine = make_engine(harness, watcher)
    assert await idle_waits(engine, lambda: len(watcher.delivered) == COUNT) == 0
    assert watcher.at_a_time == 1
    await engine.stop(1)
    assert {row.state for row in await harness.rows()} == {"delivered"}
    await harness.close()


async def test_a_full_engine_claims_the_next_as_soon_as_a_worker_is_free(tmp_path: Path) -> None:
    harness, watcher = await open_harness(tmp_path), Watcher()
    await harness.contract()
    for _ in range(COUNT):
        await harness.emit()
    await harness.route()
    engine = make_engine(harness, watcher, capacity=1)
    assert await idle_waits(engine, lambda: len(watcher.delivered) == COUNT) == 0
    assert watcher.at_a_time == 1
    await engine.stop(1)
    await harness.close()
