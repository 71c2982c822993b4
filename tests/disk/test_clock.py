"""Clocks that are set: leases do not notice, order stays, and nothing waits for a time that was."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from holdfast.domain.delivery import Delivered, Handed, Retry
from holdfast.operations.sweeper import Sweeper
from holdfast.testing.clock import ManualClock
from holdfast.testing.suite.harness import Bench

HOUR, DAY = 3600, 86_400
STEPS = [-3 * DAY, -HOUR, HOUR, 3 * DAY]


@pytest.fixture(params=["apsw", "sqlite3"])
async def bench(shelf, request):
    async def open_store(name, clock, chance, keep):
        shelf.clock, shelf.driver = clock, request.param
        return shelf.open(keep=keep)

    bench = await Bench.start(open_store)
    await bench.contract()
    await bench.store.care.checkpoint()
    yield bench
    await bench.close()


@pytest.mark.parametrize("step", STEPS)
async def test_a_lease_is_neither_early_nor_late(bench: Bench, step: int) -> None:
    await bench.send()
    claim = await bench.take(lease_s=30)
    bench.clock.step_wall(step)
    await bench.store.care.checkpoint()
    bench.clock.advance(29)
    assert await bench.store.deliveries.reclaim() == 0
    assert await bench.claim() == []
    assert await bench.store.deliveries.renew([claim], 30_000) == set()
    bench.clock.advance(31)
    assert await bench.store.deliveries.reclaim() == 1
    assert (await bench.take()).delivery.id == claim.delivery.id


@pytest.mark.parametrize("step", STEPS)
async def test_what_waits_for_its_first_attempt_can_be_claimed_after_a_step(bench: Bench, step: int) -> None:
    id = await bench.send()
    bench.clock.step_wall(step)
    await bench.store.care.checkpoint()
    assert (await bench.take()).delivery.id == id


@pytest.mark.parametrize("step", [-3 * DAY, -HOUR])
async def test_a_retry_keeps_its_wait_when_the_clock_is_set_back(bench: Bench, step: int) -> None:
    await bench.send()
    await bench.settle(await bench.take(), Retry("503", after_s=30))
    bench.clock.step_wall(step)
    await bench.store.care.checkpoint()
    bench.clock.advance(29)
    assert await bench.claim() == []
    bench.clock.advance(1)
    assert len(await bench.claim()) == 1


async def test_a_retry_is_at_most_early_when_the_clock_is_set_ahead(bench: Bench) -> None:
    await bench.send()
    await bench.settle(await bench.take(), Retry("503", after_s=30))
    bench.clock.step_wall(3 * DAY)
    assert len(await bench.claim()) == 1


async def test_a_wrong_clock_that_is_put_right_holds_nothing_back(bench: Bench) -> None:
    bench.clock.step_wall(3 * DAY)
    await bench.store.care.checkpoint()
    fresh = await bench.send()
    again = await bench.send()
    claims = {claim.delivery.id: claim for claim in await bench.claim()}
    await bench.settle(claims[again], Retry("503", after_s=60))
    bench.clock.step_wall(-3 * DAY)
    await bench.store.care.checkpoint()
    await bench.store.deliveries.release([claims[fresh]])  # held meanwhile: its due time was put right as well
    assert (await bench.take()).delivery.id == fresh
    bench.clock.advance(60)
    assert (await bench.take()).delivery.id == again


async def test_a_step_back_while_nobody_runs_is_noticed_at_the_next_start(bench: Bench) -> None:
    first = await bench.send()
    await bench.settle(await bench.take(), Retry("503", after_s=30))
    second = await bench.send()
    bench.clock.step_wall(-HOUR)
    await bench.crash()
    await bench.store.care.checkpoint()
    assert (await bench.take()).delivery.id == second
    bench.clock.advance(30)
    assert (await bench.take()).delivery.id == first


async def test_a_time_that_the_caller_named_is_kept(bench: Bench) -> None:
    await bench.emit(at=datetime.fromtimestamp(bench.clock.now_ms() / 1000 + 600, UTC))
    await bench.route()
    bench.clock.step_wall(-HOUR)
    await bench.store.care.checkpoint()
    bench.clock.advance(HOUR + 599)
    assert await bench.claim() == []
    bench.clock.advance(1)
    assert len(await bench.claim()) == 1


async def test_a_confirmation_is_looked_for_when_it_was_to_be(bench: Bench) -> None:
    await bench.send()
    await bench.settle(await bench.take(), Handed(check_after_s=20))
    bench.clock.step_wall(-HOUR)
    await bench.store.care.checkpoint()
    bench.clock.advance(19)
    assert await bench.store.deliveries.resume_handed() == 0
    bench.clock.advance(1)
    assert await bench.store.deliveries.resume_handed() == 1


@pytest.mark.parametrize("step", STEPS)
async def test_the_order_of_a_lane_does_not_depend_on_the_clock(bench: Bench, step: int) -> None:
    await bench.contract("o", "handler:o", ordered=True)
    await bench.store.contracts.remove("c")
    ids = [await bench.send(stream="s")]
    bench.clock.step_wall(step)
    await bench.store.care.checkpoint()
    ids += [await bench.send(stream="s") for _ in range(2)]
    bench.clock.step_wall(-step / 2)
    await bench.store.care.checkpoint()
    ids.append(await bench.send(stream="s"))
    assert [event.seq for event in await bench.store.events.read("s", 0, 10)] == [1, 2, 3, 4]
    assert [await bench.end(Delivered()) for _ in ids] == ids


async def test_two_processes_whose_clocks_differ_share_leases_rightly(bench: Bench, shelf) -> None:
    """On one machine the boot clock is one, whatever each is told about the wall clock."""
    id = await bench.send()
    claim = await bench.take(lease_s=30)
    skewed = ManualClock(bench.clock.now_ms() + 3 * DAY * 1000, bench.clock.boot_ms())
    shelf.clock = skewed
    other = shelf.open(keep=False)
    assert await other.deliveries.reclaim() == 0
    skewed.advance(31)
    assert await other.deliveries.reclaim() == 1
    assert not await bench.settle(claim, Delivered())
    assert (await bench.row(id)).state == "pending"
    await other.close()


@pytest.mark.parametrize("now_ms", [2**31 * 1000 - 500, 2**32 * 1000 - 500])
async def test_nothing_happens_when_the_seconds_outgrow_a_word(bench: Bench, now_ms: int) -> None:
    bench.clock.step_wall((now_ms - bench.clock.now_ms()) / 1000)
    before = await bench.send()
    bench.clock.advance(1)
    after = await bench.send()
    assert [claim.delivery.id for claim in await bench.claim()] == [before, after]


async def sweep(bench: Bench, sweeper: Sweeper, minutes: int) -> None:
    for _ in range(minutes):
        bench.clock.advance(60)
        await sweeper.tick()


@pytest.mark.parametrize("step", STEPS)
async def test_a_step_does_not_bury_what_waits_for_a_handler(bench: Bench, step: int) -> None:
    """The hour of grace is an hour: whatever the clock says, nobody waited for three days."""
    id = await bench.send()
    sweeper = Sweeper(bench.store.deliveries, bench.owner, frozenset, bench.clock)
    await sweep(bench, sweeper, 30)
    bench.clock.step_wall(step)
    await bench.store.care.checkpoint()
    await sweep(bench, sweeper, 50)
    assert (await bench.row(id)).state == "pending"
    await sweep(bench, sweeper, 3 * HOUR // 60)
    if step > -DAY:  # set back by days, it waits until the clock has caught up: late, but nobody's loss
        assert (await bench.row(id)).reason == "no_handler"


async def test_a_steady_clock_keeps_the_hour(bench: Bench) -> None:
    id = await bench.send()
    sweeper = Sweeper(bench.store.deliveries, bench.owner, frozenset, bench.clock)
    await sweep(bench, sweeper, 58)
    assert (await bench.row(id)).state == "pending"
    await sweep(bench, sweeper, 5)
    assert (await bench.row(id)).reason == "no_handler"
