"""The router's place: what lies beyond it waits, whatever lies behind it was routed or is listed to be routed again."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.domain.contract import Criterion
from holdfast.domain.event import new_event
from holdfast.store.sqlite.store import DRIVERS
from holdfast.testing.store_suite import Bench, OpenStore

DAY = 24 * 3600


async def test_two_batches_of_one_place_are_routed_once(open_store: OpenStore) -> None:
    bench = await Bench.start(open_store)
    await bench.contract()
    await bench.store.events.append([new_event("t") for _ in range(3)])
    async with bench.store.routing.batch(2) as one, bench.store.routing.batch(10) as other:
        plans = [await bench.plan(event, other.due_at_ms) for event in other.events]
        assert await one.commit(plans[:2]) is True
        assert await other.commit(plans) is False
    assert (len(await bench.rows()), await bench.store.routing.backlog()) == (2, 1)
    assert await bench.route() == 1
    assert len(await bench.rows()) == 3
    await bench.close()


async def test_no_plan_may_pass_over_an_event(open_store: OpenStore) -> None:
    bench = await Bench.start(open_store)
    await bench.contract()
    await bench.store.events.append([new_event("t") for _ in range(3)])
    async with bench.store.routing.batch(10) as batch:
        plans = [await bench.plan(event, batch.due_at_ms) for event in batch.events]
        for wrong in (plans[1:], plans[:1] + plans[2:], plans[::-1]):
            with pytest.raises(ValueError, match="must not pass over an event"):
                await batch.commit(wrong)
        assert await batch.commit(plans[:2]) is True
    assert (len(await bench.rows()), await bench.store.routing.backlog()) == (2, 1)
    await bench.close()


async def test_an_id_sent_twice_leaves_a_gap_that_nobody_counts(open_store: OpenStore) -> None:
    bench = await Bench.start(open_store)
    await bench.contract()
    first = new_event("t", id="evt_" + "0" * 32)
    for event in (first, first, first, new_event("t")):
        await bench.store.events.append([event])
    assert await bench.store.routing.backlog() == 2
    assert (await bench.store.operator.figures())["unrouted"] == 2
    assert await bench.route() == 2
    assert await bench.store.routing.backlog() == 0
    await bench.close()


async def test_a_long_line_is_measured_to_the_last_event(open_store: OpenStore) -> None:
    bench = await Bench.start(open_store)
    for count in (999, 1, 1, 400):
        await bench.store.events.append([new_event("t") for _ in range(count)])
        assert await bench.store.routing.backlog() == (await bench.store.operator.figures())["unrouted"]
    assert await bench.store.routing.backlog() == 1401
    assert await bench.route() == 1401
    assert await bench.store.routing.backlog() == 0
    await bench.close()


async def test_a_number_is_never_given_behind_the_place(open_store: OpenStore) -> None:
    bench = await Bench.start(open_store)
    for _ in range(3):
        await bench.emit()
    await bench.route()
    bench.clock.advance(DAY)
    assert (await bench.prune(delivered_s=0))["events"] == 3
    await bench.contract()
    late = await bench.emit()
    assert await bench.store.routing.backlog() == 1
    assert await bench.route() == 1
    assert [row.event_id for row in await bench.rows()] == [late.id]
    await bench.close()


async def test_what_is_routed_again_comes_before_what_is_new(open_store: OpenStore) -> None:
    bench = await Bench.start(open_store)
    ids = [(await bench.emit(f"t{number}")).id for number in range(3)]
    await bench.route()
    new = await bench.emit("t9")
    await bench.contract(type_criterion=Criterion(pattern="t*"))
    assert await bench.store.events.reroute([ids[2], ids[0]]) == 2
    assert await bench.store.routing.backlog() == 3
    async with bench.store.routing.batch(2) as batch:
        assert [event.id for event in batch.events] == [ids[0], ids[2]]
    async with bench.store.routing.batch(10) as batch:
        assert [event.id for event in batch.events] == [ids[0], ids[2], new.id]
        plans = [await bench.plan(event, batch.due_at_ms) for event in batch.events]
        assert await batch.commit(plans) is True
        assert await batch.commit(plans) is False
    assert [row.event_id for row in await bench.rows()] == [ids[0], ids[2], new.id]
    assert await bench.store.routing.backlog() == 0
    await bench.close()


async def test_retention_spares_what_is_to_be_routed_again(open_store: OpenStore) -> None:
    bench = await Bench.start(open_store)
    kept, gone = (await bench.emit()).id, (await bench.emit()).id
    await bench.route()
    await bench.store.events.reroute([kept])
    bench.clock.advance(DAY)
    assert (await bench.prune(delivered_s=0))["events"] == 1
    assert await bench.store.events.get(kept) is not None
    assert await bench.store.events.get(gone) is None
    await bench.close()


async def test_an_event_that_was_rolled_back_leaves_no_trace_in_the_line(
    open_store: OpenStore, tmp_path: Path, driver: str
) -> None:
    bench = await Bench.start(open_store)
    await bench.contract()
    other = DRIVERS[driver](tmp_path / "store.db")
    other.run("BEGIN")
    other.run("INSERT INTO holdfast_publish (type) VALUES ('undone')")
    other.run("ROLLBACK")
    assert await bench.store.routing.backlog() == 0
    other.run("INSERT INTO holdfast_publish (type) VALUES ('done')")
    assert other.rows("SELECT count(*) FROM holdfast_unrouted") == [(1,)]
    other.close()
    assert await bench.route() == 1
    assert [row.event_type for row in await bench.rows()] == ["done"]
    await bench.close()
