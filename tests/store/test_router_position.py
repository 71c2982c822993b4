"""The router's position: events after it wait; events before it were routed or are listed to be routed again."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.domain.contract import Criterion
from holdfast.domain.delivery import Delivered
from holdfast.domain.event import new_event
from holdfast.store.sqlite.store import DRIVERS
from holdfast.testing.store_suite import Harness, OpenStore

DAY = 24 * 3600


async def test_two_batches_from_one_position_are_routed_once(open_store: OpenStore) -> None:
    harness = await Harness.start(open_store)
    await harness.contract()
    await harness.store.events.append([new_event("t") for _ in range(3)])
    async with harness.store.routing.batch(2) as one, harness.store.routing.batch(10) as other:
        plans = [await harness.plan(event, other.due_at_ms) for event in other.events]
        assert await one.commit(plans[:2]) is True
        assert await other.commit(plans) is False
    assert (len(await harness.rows()), await harness.store.routing.backlog()) == (2, 1)
    assert await harness.route() == 1
    assert len(await harness.rows()) == 3
    await harness.close()


async def test_no_plan_may_pass_over_an_event(open_store: OpenStore) -> None:
    harness = await Harness.start(open_store)
    await harness.contract()
    await harness.store.events.append([new_event("t") for _ in range(3)])
    async with harness.store.routing.batch(10) as batch:
        plans = [await harness.plan(event, batch.due_at_ms) for event in batch.events]
        for wrong in (plans[1:], plans[:1] + plans[2:], plans[::-1]):
            with pytest.raises(ValueError, match="must not pass over an event"):
                await batch.commit(wrong)
        assert await batch.commit(plans[:2]) is True
    assert (len(await harness.rows()), await harness.store.routing.backlog()) == (2, 1)
    await harness.close()


async def test_an_id_sent_twice_leaves_a_gap_that_is_not_counted(open_store: OpenStore) -> None:
    harness = await Harness.start(open_store)
    await harness.contract()
    first = new_event("t", id="evt_" + "0" * 32)
    for event in (first, first, first, new_event("t")):
        await harness.store.events.append([event])
    assert await harness.store.routing.backlog() == 2
    assert (await harness.store.operator.figures()).unrouted == 2
    assert await harness.route() == 2
    assert await harness.store.routing.backlog() == 0
    await harness.close()


async def test_no_number_is_used_again_after_all_events_were_pruned(open_store: OpenStore) -> None:
    harness = await Harness.start(open_store)
    await harness.contract()
    await harness.store.events.append([new_event("t") for _ in range(5)])
    await harness.route()
    for claim in await harness.claim():
        await harness.settle(claim, Delivered())
    harness.clock.advance(2 * DAY)
    assert (await harness.prune(delivered_s=DAY))["events"] == 5
    numbers = []
    for events in ([new_event("t")], [new_event("t") for _ in range(60)], [new_event("t", dedup_key="k")]):
        await harness.store.events.append(events)
        async with harness.store.routing.batch(500) as batch:
            numbers += [event.n for event in batch.events]
            assert await batch.commit([await harness.plan(event, {}) for event in batch.events])
    assert numbers == list(range(6, 68))
    await harness.close()


async def test_a_long_line_is_measured_to_the_last_event(open_store: OpenStore) -> None:
    harness = await Harness.start(open_store)
    for count in (999, 1, 1, 400):
        await harness.store.events.append([new_event("t") for _ in range(count)])
        assert await harness.store.routing.backlog() == (await harness.store.operator.figures()).unrouted
    assert await harness.store.routing.backlog() == 1401
    assert await harness.route() == 1401
    assert await harness.store.routing.backlog() == 0
    await harness.close()


async def test_a_number_before_the_routers_position_is_never_assigned(open_store: OpenStore) -> None:
    harness = await Harness.start(open_store)
    for _ in range(3):
        await harness.emit()
    await harness.route()
    harness.clock.advance(DAY)
    assert (await harness.prune(delivered_s=0))["events"] == 3
    await harness.contract()
    late = await harness.emit()
    assert await harness.store.routing.backlog() == 1
    assert await harness.route() == 1
    assert [row.event_id for row in await harness.rows()] == [late.id]
    await harness.close()


async def test_what_is_routed_again_comes_before_what_is_new(open_store: OpenStore) -> None:
    harness = await Harness.start(open_store)
    ids = [(await harness.emit(f"t{number}")).id for number in range(3)]
    await harness.route()
    new = await harness.emit("t9")
    await harness.contract(type_criterion=Criterion(pattern="t*"))
    assert await harness.store.events.reroute([ids[2], ids[0]]) == 2
    assert await harness.store.routing.backlog() == 3
    async with harness.store.routing.batch(2) as batch:
        assert [event.id for event in batch.events] == [ids[0], ids[2]]
    async with harness.store.routing.batch(10) as batch:
        assert [event.id for event in batch.events] == [ids[0], ids[2], new.id]
        plans = [await harness.plan(event, batch.due_at_ms) for event in batch.events]
        assert await batch.commit(plans) is True
        assert await batch.commit(plans) is False
    assert [row.event_id for row in await harness.rows()] == [ids[0], ids[2], new.id]
    assert await harness.store.routing.backlog() == 0
    await harness.close()


async def test_retention_spares_what_is_to_be_routed_again(open_store: OpenStore) -> None:
    harness = await Harness.start(open_store)
    kept, gone = (await harness.emit()).id, (await harness.emit()).id
    await harness.route()
    await harness.store.events.reroute([kept])
    harness.clock.advance(DAY)
    assert (await harness.prune(delivered_s=0))["events"] == 1
    assert await harness.store.events.get(kept) is not None
    assert await harness.store.events.get(gone) is None
    await harness.close()


async def test_an_event_that_was_rolled_back_leaves_no_trace_in_the_line(
    open_store: OpenStore, tmp_path: Path, driver: str
) -> None:
    harness = await Harness.start(open_store)
    await harness.contract()
    other = DRIVERS[driver](tmp_path / "store.db")
    other.run("BEGIN")
    other.run("INSERT INTO holdfast_publish (type) VALUES ('undone')")
    other.run("ROLLBACK")
    assert await harness.store.routing.backlog() == 0
    other.run("INSERT INTO holdfast_publish (type) VALUES ('done')")
    assert other.rows("SELECT count(*) FROM holdfast_unrouted") == [(1,)]
    other.close()
    assert await harness.route() == 1
    assert [row.event_type for row in await harness.rows()] == ["done"]
    await harness.close()
