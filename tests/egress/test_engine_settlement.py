"""How the engine settles, stops, and grows its window."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import holdfast.egress.engine as engine_module
from engine_harness import EngineHarness
from holdfast.domain.delivery import Delivered, Handed
from holdfast.domain.errors import StoreBusy
from holdfast.domain.event import new_event
from holdfast.store.roles.deliveries import Claimed, ClaimRequest, Deliveries


@pytest.fixture
async def harness(tmp_path: Path) -> EngineHarness:
    return await EngineHarness(tmp_path).start()


async def test_a_stop_gives_back_waiting_claims_and_settles_running_ones(harness: EngineHarness) -> None:
    await harness.contract(concurrency=1)
    await harness.stream(1)
    await harness.drain()
    harness.script.seen.clear()
    await harness.stream(6, first=2)
    gate = asyncio.Event()

    async def wait() -> Delivered:
        await gate.wait()
        return Delivered()

    harness.script.answer = lambda claim: wait()
    await harness.step()
    await harness.step()
    assert harness.engine.in_flight >= 1
    asyncio.get_running_loop().call_later(0.01, gate.set)
    await harness.engine.stop(grace_s=5)
    rows = await harness.rows()
    assert [row.state for row in rows].count("delivered") == 2
    assert not any(row.leased for row in rows)
    assert all(row.starts == 0 for row in rows)
    assert harness.script.closed


async def test_quiet_lanes_are_served_fairly_beside_a_noisy_one(harness: EngineHarness) -> None:
    await harness.contract(ordered=True)
    await harness.stream(200, "noisy")
    for number in range(50):
        await harness.stream(1, f"quiet-{number}")
    for _ in range(8):
        await harness.step()
    quiet = [claim for claim in harness.script.seen if claim.event.stream != "noisy"]
    assert len(quiet) == 50


async def test_a_contract_that_hangs_does_not_block_another(harness: EngineHarness) -> None:
    await harness.contract("slow", "handler:slow", concurrency=1)
    await harness.contract("fast", "handler:fast")
    never = asyncio.Event()
    harness.script.answer = lambda claim: never.wait() if claim.delivery.contract_id == "slow" else Delivered()
    await harness.publish(*[new_event("t.x", i) for i in range(40)])
    await harness.drain(10)
    states = [row.state for row in await harness.rows(contract="fast")]
    assert states == ["delivered"] * 40
    never.set()


async def test_a_handed_delivery_keeps_its_lane_and_is_checked_again(harness: EngineHarness) -> None:
    await harness.contract(ordered=True)
    await harness.stream(2)
    harness.script.answer = lambda claim: Delivered() if claim.delivery.handed else Handed(check_after_s=10)
    await harness.drain()
    assert harness.script.seqs == [1]
    assert (await harness.rows())[0].waits_for == "confirmation"
    harness.clock.advance(11)
    assert await harness.store.deliveries.resume_handed() == 1
    harness.script.answer = lambda claim: Delivered()
    await harness.drain()
    assert harness.script.seqs == [1, 1, 2]


async def test_effects_are_appended_with_the_settlement(harness: EngineHarness) -> None:
    await harness.contract(pattern="t.*")
    await harness.stream(1)
    harness.script.answer = lambda claim: Delivered(effects=[new_event("after.t", {"of": claim.event.id})])
    await harness.drain()
    page = await harness.store.events.find(_everything(), None, 10)
    assert [event.type for event in page.items] == ["after.t", "t.x"]


async def test_a_settlement_that_fails_is_repeated(harness: EngineHarness, monkeypatch: pytest.MonkeyPatch) -> None:

    await harness.contract()
    await harness.stream(1)
    real = harness.store.deliveries.settle

    async def busy(*arguments: object) -> set[int]:
        raise StoreBusy("busy")

    monkeypatch.setattr(harness.store.deliveries, "settle", busy)
    await harness.step()
    with pytest.raises(StoreBusy):
        await harness.engine.tick()
    monkeypatch.setattr(harness.store.deliveries, "settle", real)
    await harness.drain()
    assert await harness.states() == ["delivered"]
    assert len(harness.script.seen) == 1


async def test_effects_that_cannot_be_appended_end_their_own_delivery_only(harness: EngineHarness) -> None:
    await harness.contract(pattern="t.*")
    await harness.store.events.append([new_event("taken", {"by": "me"}, dedup_key="k")])
    await harness.publish(new_event("t.good"), new_event("t.bad"))
    clash = [new_event("taken", {"by": "you"}, dedup_key="k")]
    harness.script.answer = lambda claim: Delivered(effects=clash if claim.event.type == "t.bad" else ())
    await harness.drain()
    rows = {row.event_type: row for row in await harness.rows()}
    assert rows["t.good"].state == "delivered"
    assert (rows["t.bad"].state, rows["t.bad"].reason) == ("dead", "rejected")
    assert "another body" in (rows["t.bad"].last_error or "")


async def test_an_attempt_interrupted_by_a_stop_is_given_back_and_is_no_crash(
    harness: EngineHarness,
) -> None:
    await harness.contract()
    await harness.stream(1)
    never = asyncio.Event()
    harness.script.answer = lambda claim: never.wait()
    await harness.step()
    await harness.engine.stop(grace_s=0.01)
    (row,) = await harness.rows()
    assert (row.state, row.leased, row.starts) == ("pending", False, 0)


def _everything() -> object:
    from holdfast.store.roles.events import EventFilter

    return EventFilter()


async def test_a_delivery_that_was_lost_and_claimed_again_is_not_counted_for_ever(harness: EngineHarness) -> None:
    """An engine suspended for longer than a lease may claim what it still holds: counted twice, ended twice."""
    await harness.contract(concurrency=2)
    never = asyncio.Event()
    for round in range(1, 8):  # more often than the places it could have taken
        harness.script.answer = lambda claim: never.wait()
        await harness.publish(new_event("t.x"))
        await harness.step()
        assert harness.engine.in_flight == 1
        harness.clock.advance(31)
        assert await harness.store.deliveries.reclaim() == 1
        harness.script.answer = lambda claim: Delivered()
        await harness.drain()
        assert await harness.states() == ["delivered"] * round
        assert harness.engine.leases_lost == round


async def test_queues_of_unused_addresses_are_forgotten(
    harness: EngineHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_module, "QUEUES_MAX", 10)
    for first in range(0, 100, 10):
        await harness.publish(*[new_event("t.x", to=f"handler:h{number}") for number in range(first, first + 10)])
        await harness.drain()
    assert await harness.states() == ["delivered"] * 100
    assert len(harness.engine._queues) <= 20


class _Held:
    """The store's deliveries; a claim returns only when the test sets `back`."""

    def __init__(self, inner: Deliveries) -> None:
        self._inner = inner
        self.back = asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def claim(self, request: ClaimRequest) -> Claimed:
        claimed = await self._inner.claim(request)
        await self.back.wait()
        return claimed


async def test_a_claim_that_arrives_as_the_last_worker_ends_gets_a_new_worker(harness: EngineHarness) -> None:
    """A worker that found no more claims is not counted any more, although its task has not ended yet."""
    await harness.contract(concurrency=1)
    await harness.publish(new_event("t.x"))
    await harness.drain()
    await harness.step()  # the queue drained: from now on two are asked for at a time
    leave = asyncio.Event()
    harness.script.answer = lambda claim: Delivered() if len(harness.script.seen) > 2 else _after(leave)
    await harness.publish(new_event("t.x"))
    await harness.step()
    assert harness.engine.in_flight == 1
    harness.engine._deliveries = held = _Held(harness.store.deliveries)  # type: ignore[assignment]
    await harness.publish(new_event("t.x"))
    tick = asyncio.ensure_future(harness.engine.tick())
    for _ in range(20):
        await asyncio.sleep(0)
    leave.set()  # in this order: the worker leaves in one step, the claim comes back in the next
    held.back.set()
    await tick
    await harness.drain()
    assert await harness.states() == ["delivered"] * 3


async def _after(gate: asyncio.Event) -> Delivered:
    await gate.wait()
    return Delivered()


async def test_the_window_of_a_queue_that_drains_quickly_doubles(harness: EngineHarness) -> None:
    await harness.contract()
    await harness.stream(300)
    handed = []
    for _ in range(5):
        before = len(harness.script.seen)
        await harness.step()
        handed.append(len(harness.script.seen) - before)
    assert handed == [32, 64, 128, 76, 0]


async def test_the_window_doubles_too_while_one_worker_is_busy(harness: EngineHarness) -> None:
    """The first takes its time: the others go on, and need not wait for a settle after each."""
    await harness.contract()
    await harness.stream(300)
    slow = asyncio.Event()

    async def first() -> Delivered:
        await slow.wait()
        return Delivered()

    harness.script.answer = lambda claim: first() if claim.event.seq == 1 else Delivered()
    for _ in range(6):
        await harness.step()
    assert len(harness.script.seen) == 300
    slow.set()
    await harness.drain()
    assert await harness.states() == ["delivered"] * 300


async def test_the_window_of_a_receiver_that_hangs_does_not_grow(harness: EngineHarness) -> None:
    await harness.contract()
    await harness.stream(300)
    harness.script.answer = lambda claim: asyncio.sleep(3600)
    for _ in range(10):
        await harness.step()
        harness.clock.advance(1)
    assert harness.engine.in_flight == 32


async def test_the_window_of_an_idle_queue_does_not_grow(harness: EngineHarness) -> None:
    await harness.contract()
    await harness.stream(1)
    for _ in range(10):
        await harness.step()
    harness.script.answer = lambda claim: asyncio.sleep(3600)
    await harness.stream(300)
    await harness.step()
    assert harness.engine.in_flight == 32
