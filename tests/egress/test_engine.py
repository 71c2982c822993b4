"""The engine: claim, deliver, settle. Real store, virtual time, no threads."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from engine_harness import EngineHarness
from holdfast.domain.delivery import Claim, Dead, Delivered, Retry, Settlement
from holdfast.domain.errors import StoreBusy
from holdfast.domain.states import Reason
from holdfast.ledger.verifier import verify_receipts
from holdfast.store.roles.owners import Owner


@pytest.fixture
async def harness(tmp_path: Path) -> EngineHarness:
    return await EngineHarness(tmp_path).start()


async def test_an_event_is_delivered_and_leaves_a_receipt(harness: EngineHarness) -> None:
    await harness.contract()
    await harness.stream(1)
    await harness.drain()
    (row,) = await harness.rows()
    assert (row.state, row.attempts) == ("delivered", 1)
    found = await verify_receipts(harness.store.receipts)
    assert found.ok
    assert found.transitions == 1


async def test_a_failing_head_blocks_its_lane_and_no_other(harness: EngineHarness) -> None:
    await harness.contract(ordered=True)
    await harness.stream(3, "a")
    await harness.stream(3, "b")
    harness.script.answer = lambda claim: Retry("no") if claim.event.stream == "a" else Delivered()
    await harness.drain()
    assert [claim.event.seq for claim in harness.script.seen if claim.event.stream == "b"] == [1, 2, 3]
    assert [claim.event.seq for claim in harness.script.seen if claim.event.stream == "a"] == [1]


async def test_a_head_is_retried_before_the_deliveries_after_it(harness: EngineHarness) -> None:
    await harness.contract(ordered=True)
    await harness.stream(3)
    harness.script.answer = lambda claim: Retry("no") if len(harness.script.seen) == 1 else Delivered()
    await harness.drain()
    assert harness.script.seqs == [1]
    harness.clock.advance(2)
    await harness.drain()
    assert harness.script.seqs == [1, 1, 2, 3]


async def test_a_lane_continues_after_a_dead_head(harness: EngineHarness) -> None:
    await harness.contract(ordered=True)
    await harness.stream(2)
    harness.script.answer = lambda claim: Dead(Reason.REJECTED, "bad") if claim.event.seq == 1 else Delivered()
    await harness.drain()
    assert await harness.states() == ["dead", "delivered"]


async def test_attempts_end_at_the_limit_of_the_contract(harness: EngineHarness) -> None:
    await harness.contract(attempts=3)
    await harness.stream(1)
    harness.script.answer = lambda claim: Retry("still no")
    for _ in range(10):
        await harness.drain()
        harness.clock.advance(120)
    (row,) = await harness.rows()
    assert (row.state, row.reason, row.attempts) == ("dead", "exhausted", 3)
    history = await harness.store.operator.attempts(row.id)
    assert [attempt.error for attempt in history] == ["still no"] * 3


async def test_a_retry_is_not_made_before_it_is_due(harness: EngineHarness) -> None:
    await harness.contract()
    await harness.stream(1)
    harness.script.answer = lambda claim: Retry("no")
    await harness.drain()
    delay = await harness.step()
    assert delay is not None
    assert 0 < delay <= 1.0
    assert len(harness.script.seen) == 1


async def test_a_handler_that_raises_is_retried_with_its_error(harness: EngineHarness) -> None:
    await harness.contract()
    await harness.stream(1)

    def fail(claim: Claim) -> None:
        raise KeyError("price")

    harness.script.answer = fail
    await harness.drain()
    (row,) = await harness.rows()
    assert (row.state, row.last_error) == ("pending", "KeyError: 'price'")


async def test_a_delivery_that_takes_too_long_is_retried(harness: EngineHarness) -> None:
    await harness.contract(timeout_s=5)
    await harness.stream(1)

    async def hang() -> Delivered:
        await asyncio.sleep(60)
        return Delivered()

    harness.script.answer = lambda claim: hang()
    await harness.step()
    harness.clock.advance(4)
    await harness.engine.deadlines.tick()
    await harness.step()
    assert harness.engine.in_flight == 1
    harness.clock.advance(2)
    await harness.engine.deadlines.tick()
    await harness.step()
    await harness.step()
    (row,) = await harness.rows()
    assert (row.state, row.attempts, row.last_error) == ("pending", 1, "timed out after 5 s")


async def test_five_starts_without_an_end_are_a_crash_loop(harness: EngineHarness) -> None:
    await harness.contract()
    await harness.stream(1)
    never = asyncio.Event()
    harness.script.answer = lambda claim: never.wait()
    for _ in range(5):
        engine = harness.engine = harness.new_engine()
        await harness.step()
        assert engine.in_flight == 1
        harness.clock.advance(31)  # the process dies: nothing is settled, the lease ends
        assert await harness.store.deliveries.reclaim() == 1
    harness.engine = harness.new_engine()
    await harness.drain()
    (row,) = await harness.rows()
    assert (row.state, row.reason) == ("dead", "crash_loop")
    assert len(harness.script.seen) == 5
    never.set()


async def test_a_crash_uses_up_no_attempt(harness: EngineHarness) -> None:
    await harness.contract(attempts=1)
    await harness.stream(1)
    never = asyncio.Event()
    harness.script.answer = lambda claim: never.wait()
    await harness.step()
    harness.clock.advance(31)
    await harness.store.deliveries.reclaim()
    harness.script.answer = lambda claim: Delivered()
    harness.engine = harness.new_engine()
    await harness.drain()
    assert await harness.states() == ["delivered"]
    never.set()


async def test_the_result_of_a_lost_lease_is_not_applied(harness: EngineHarness) -> None:
    """A stale worker ends after its delivery was leased to another process."""
    await harness.contract()
    await harness.stream(1)
    gate = asyncio.Event()

    async def slow() -> Dead:
        await gate.wait()
        return Dead(Reason.REJECTED, "a stale verdict")

    stale = harness.engine
    harness.script.answer = lambda claim: slow()
    await harness.step()
    harness.clock.advance(31)
    await harness.store.deliveries.reclaim()
    harness.script.answer = lambda claim: Delivered()
    harness.engine = harness.new_engine()
    await harness.drain()
    gate.set()
    await asyncio.sleep(0.01)
    await stale.tick()
    assert await harness.states() == ["delivered"]
    assert stale.leases_lost == 1


async def test_renewal_keeps_the_lease_of_a_long_delivery_and_stops_a_lost_one(harness: EngineHarness) -> None:
    await harness.contract()
    await harness.stream(1)
    never = asyncio.Event()
    harness.script.answer = lambda claim: never.wait()
    await harness.step()
    for _ in range(10):
        harness.clock.advance(8)
        await harness.engine.renewal.tick()
        assert await harness.store.deliveries.reclaim() == 0
    harness.clock.advance(31)
    assert await harness.store.deliveries.reclaim() == 1
    await harness.engine.renewal.tick()
    await asyncio.sleep(0.01)
    await harness.engine.tick()
    assert harness.engine.leases_lost == 1


async def test_an_attempt_that_is_late_and_lost_at_once_ends_and_frees_its_place(harness: EngineHarness) -> None:
    """After a suspension of the process: the deadline has passed, and so has the lease."""
    await harness.contract(concurrency=1, timeout_s=5)
    await harness.stream(1)
    never = asyncio.Event()
    harness.script.answer = lambda claim: never.wait()
    await harness.step()
    harness.clock.advance(31)
    await harness.store.deliveries.reclaim()
    await harness.engine.deadlines.tick()
    for held in harness.engine._held.values():
        held.lose()
    harness.script.answer = lambda claim: Delivered()
    await asyncio.sleep(0.01)
    await harness.drain()
    assert await harness.states() == ["delivered"]
    assert harness.engine.in_flight == 0
    assert [queue.held_count for queue in harness.engine._queues.values()] == [0]


async def test_a_renewal_after_the_settlement_does_not_undo_it(
    harness: EngineHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    await harness.contract()
    await harness.stream(1)
    settle = harness.store.deliveries.settle

    async def settle_and_renew(owner: Owner, settlements: Sequence[Settlement]) -> set[int]:
        lost = await settle(owner, settlements)
        await harness.engine.renewal.tick()  # the engine does not know the result yet
        return lost

    monkeypatch.setattr(harness.store.deliveries, "settle", settle_and_renew)
    await harness.drain()
    assert await harness.states() == ["delivered"]
    assert (harness.engine.delivered, harness.engine.leases_lost) == (1, 0)


async def test_a_delivery_claimed_again_before_its_settlement_is_settled_once(
    harness: EngineHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store lost the lease, as a database may that crashed before a flush, and grants it again."""
    await harness.contract()
    await harness.stream(1)
    settle, batches = harness.store.deliveries.settle, list[int]()

    async def settle_counted(owner: Owner, settlements: Sequence[Settlement]) -> set[int]:
        batches.append(len(settlements))
        if len(batches) == 1:
            raise StoreBusy("the database cannot be reached")
        return await settle(owner, settlements)

    monkeypatch.setattr(harness.store.deliveries, "settle", settle_counted)
    await harness.step()
    await asyncio.sleep(0)
    harness.clock.advance(31)
    await harness.store.deliveries.reclaim()
    with pytest.raises(StoreBusy):
        await harness.engine.tick()  # the settle fails, and the claim beside it finds what we still hold
    await asyncio.sleep(0.01)
    await harness.drain()
    assert await harness.states() == ["delivered"]
    assert len(harness.script.seen) == 2
    assert (batches, harness.engine.delivered, harness.engine.leases_lost) == ([1, 1], 1, 1)


async def test_a_failed_renewal_does_not_affect_a_claim_made_meanwhile(
    harness: EngineHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    await harness.contract()
    await harness.stream(1)
    gate = asyncio.Event()
    harness.script.answer = lambda claim: gate.wait()
    await harness.step()
    harness.clock.advance(31)
    await harness.store.deliveries.reclaim()
    harness.script.answer = lambda claim: Delivered()
    renew = harness.store.deliveries.renew

    async def renew_late(claims: Sequence[Claim], lease_ms: int) -> set[int]:
        lost = await renew(claims, lease_ms)
        await harness.engine.tick()
        return lost

    monkeypatch.setattr(harness.store.deliveries, "renew", renew_late)
    await harness.engine.renewal.tick()
    await harness.drain()
    assert await harness.states() == ["delivered"]
    gate.set()
