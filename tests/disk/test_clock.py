"""Clock steps: leases are not affected, order stays, and no delivery waits for the lost time."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from holdfast.domain.delivery import Delivered, Handed, Retry
from holdfast.operations.duties.sweeper import Sweeper
from holdfast.testing.clock import ManualClock
from holdfast.testing.suite.harness import Harness

HOUR, DAY = 3600, 86_400
STEPS = [-3 * DAY, -HOUR, HOUR, 3 * DAY]


@pytest.fixture(params=["apsw", "sqlite3"])
async def harness(shelf, request):
    async def open_store(name, clock, chance, keep):
        shelf.clock, shelf.driver = clock, request.param
        return shelf.open(keep=keep)

    harness = await Harness.start(open_store)
    await harness.contract()
    await harness.store.maintenance.checkpoint()
    yield harness
    await harness.close()


@pytest.mark.parametrize("step", STEPS)
async def test_a_lease_is_neither_early_nor_late(harness: Harness, step: int) -> None:
    await harness.send()
    claim = await harness.take(lease_s=30)
    harness.clock.step_wall(step)
    await harness.store.maintenance.checkpoint()
    harness.clock.advance(29)
    assert await harness.store.deliveries.reclaim() == 0
    assert await harness.claim() == []
    assert await harness.store.deliveries.renew([claim], 30_000) == set()
    harness.clock.advance(31)
    assert await harness.store.deliveries.reclaim() == 1
    assert (await harness.take()).delivery.id == claim.delivery.id


@pytest.mark.parametrize("step", STEPS)
async def test_a_first_attempt_can_be_claimed_after_a_clock_step(harness: Harness, step: int) -> None:
    id = await harness.send()
    harness.clock.step_wall(step)
    await harness.store.maintenance.checkpoint()
    assert (await harness.take()).delivery.id == id


@pytest.mark.parametrize("step", [-3 * DAY, -HOUR])
async def test_a_retry_keeps_its_wait_when_the_clock_is_set_back(harness: Harness, step: int) -> None:
    await harness.send()
    await harness.settle(await harness.take(), Retry("503", after_s=30))
    harness.clock.step_wall(step)
    await harness.store.maintenance.checkpoint()
    harness.clock.advance(29)
    assert await harness.claim() == []
    harness.clock.advance(1)
    assert len(await harness.claim()) == 1


async def test_a_retry_is_at_most_early_when_the_clock_is_set_ahead(harness: Harness) -> None:
    await harness.send()
    await harness.settle(await harness.take(), Retry("503", after_s=30))
    harness.clock.step_wall(3 * DAY)
    assert len(await harness.claim()) == 1


async def test_a_wrong_clock_that_is_put_right_holds_nothing_back(harness: Harness) -> None:
    harness.clock.step_wall(3 * DAY)
    await harness.store.maintenance.checkpoint()
    fresh = await harness.send()
    again = await harness.send()
    claims = {claim.delivery.id: claim for claim in await harness.claim()}
    await harness.settle(claims[again], Retry("503", after_s=60))
    harness.clock.step_wall(-3 * DAY)
    await harness.store.maintenance.checkpoint()
    await harness.store.deliveries.release([claims[fresh]])  # held meanwhile: its due time was put right as well
    assert (await harness.take()).delivery.id == fresh
    harness.clock.advance(60)
    assert (await harness.take()).delivery.id == again


async def test_a_step_back_while_no_process_runs_is_noticed_at_the_next_start(harness: Harness) -> None:
    first = await harness.send()
    await harness.settle(await harness.take(), Retry("503", after_s=30))
    second = await harness.send()
    harness.clock.step_wall(-HOUR)
    await harness.crash()
    await harness.store.maintenance.checkpoint()
    assert (await harness.take()).delivery.id == second
    harness.clock.advance(30)
    assert (await harness.take()).delivery.id == first


async def test_a_not_before_of_the_caller_is_kept(harness: Harness) -> None:
    await harness.emit(at=datetime.fromtimestamp(harness.clock.now_ms() / 1000 + 600, UTC))
    await harness.route()
    harness.clock.step_wall(-HOUR)
    await harness.store.maintenance.checkpoint()
    harness.clock.advance(HOUR + 599)
    assert await harness.claim() == []
    harness.clock.advance(1)
    assert len(await harness.claim()) == 1


async def test_a_confirmation_is_checked_at_its_time(harness: Harness) -> None:
    await harness.send()
    await harness.settle(await harness.take(), Handed(check_after_s=20))
    harness.clock.step_wall(-HOUR)
    await harness.store.maintenance.checkpoint()
    harness.clock.advance(19)
    assert await harness.store.deliveries.resume_handed() == 0
    harness.clock.advance(1)
    assert await harness.store.deliveries.resume_handed() == 1


@pytest.mark.parametrize("step", STEPS)
async def test_the_order_of_a_lane_does_not_depend_on_the_clock(harness: Harness, step: int) -> None:
    await harness.contract("o", "handler:o", ordered=True)
    await harness.store.contracts.remove("c")
    ids = [await harness.send(stream="s")]
    harness.clock.step_wall(step)
    await harness.store.maintenance.checkpoint()
    ids += [await harness.send(stream="s") for _ in range(2)]
    harness.clock.step_wall(-step / 2)
    await harness.store.maintenance.checkpoint()
    ids.append(await harness.send(stream="s"))
    assert [event.seq for event in await harness.store.events.read("s", 0, 10)] == [1, 2, 3, 4]
    assert [await harness.end(Delivered()) for _ in ids] == ids


async def test_two_processes_whose_clocks_differ_share_leases_rightly(harness: Harness, shelf) -> None:
    """All processes of a machine share one boot clock, whatever their wall clocks say."""
    id = await harness.send()
    claim = await harness.take(lease_s=30)
    skewed = ManualClock(harness.clock.now_ms() + 3 * DAY * 1000, harness.clock.boot_ms())
    shelf.clock = skewed
    other = shelf.open(keep=False)
    assert await other.deliveries.reclaim() == 0
    skewed.advance(31)
    assert await other.deliveries.reclaim() == 1
    assert not await harness.settle(claim, Delivered())
    assert (await harness.row(id)).state == "pending"
    await other.close()


@pytest.mark.parametrize("now_ms", [2**31 * 1000 - 500, 2**32 * 1000 - 500])
async def test_times_after_the_year_2038_work(harness: Harness, now_ms: int) -> None:
    harness.clock.step_wall((now_ms - harness.clock.now_ms()) / 1000)
    before = await harness.send()
    harness.clock.advance(1)
    after = await harness.send()
    assert [claim.delivery.id for claim in await harness.claim()] == [before, after]


async def sweep(harness: Harness, sweeper: Sweeper, minutes: int) -> None:
    for _ in range(minutes):
        harness.clock.advance(60)
        await sweeper.tick()


@pytest.mark.parametrize("step", STEPS)
async def test_a_clock_step_does_not_end_deliveries_that_wait_for_a_handler(harness: Harness, step: int) -> None:
    """The hour of grace is an hour: whatever the clock says, nobody waited for three days."""
    id = await harness.send()
    sweeper = Sweeper(harness.store.deliveries, harness.owner, frozenset, harness.clock)
    await sweep(harness, sweeper, 30)
    harness.clock.step_wall(step)
    await harness.store.maintenance.checkpoint()
    await sweep(harness, sweeper, 50)
    assert (await harness.row(id)).state == "pending"
    await sweep(harness, sweeper, 3 * HOUR // 60)
    if step > -DAY:  # set back by days, it waits until the clock has caught up: late, but nobody's loss
        assert (await harness.row(id)).reason == "no_handler"


async def test_a_steady_clock_keeps_the_hour(harness: Harness) -> None:
    id = await harness.send()
    sweeper = Sweeper(harness.store.deliveries, harness.owner, frozenset, harness.clock)
    await sweep(harness, sweeper, 58)
    assert (await harness.row(id)).state == "pending"
    await sweep(harness, sweeper, 5)
    assert (await harness.row(id)).reason == "no_handler"
