"""The router: from events to deliveries, in one transaction with its own place."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from holdfast.domain.event import NewEvent, new_event
from house import Bench


@pytest.fixture
async def bench(tmp_path: Path) -> Bench:
    return await Bench(tmp_path).start()


async def test_each_contract_that_wants_an_event_gets_its_own_delivery(bench: Bench) -> None:
    await bench.contract("one", "handler:a", "order.*")
    await bench.contract("two", "handler:b", "*.placed")
    await bench.contract("three", "handler:c", "other")
    await bench.publish(new_event("order.placed"))
    assert sorted(row.contract_id or "" for row in await bench.rows()) == ["one", "two"]


async def test_an_event_nobody_wants_is_listed_and_can_be_offered_again(bench: Bench) -> None:
    from holdfast.store.base import EventFilter

    await bench.publish(new_event("lonely"))
    page = await bench.store.events.find(EventFilter(unmatched=True), None, 10)
    assert [event.type for event in page.items] == ["lonely"]
    await bench.contract("late", "handler:h", "lonely")
    assert await bench.store.events.reroute([page.items[0].id]) == 1
    await bench.route()
    assert [row.contract_id for row in await bench.rows()] == ["late"]
    assert (await bench.store.events.find(EventFilter(unmatched=True), None, 10)).items == []


async def test_a_direct_address_needs_no_contract(bench: Bench) -> None:
    await bench.publish(new_event("hello", to="handler:h"))
    (row,) = await bench.rows()
    assert (row.address, row.contract_id) == ("handler:h", None)


async def test_messages_to_one_session_share_a_lane_whatever_they_come_from(bench: Bench) -> None:
    await bench.contract("c", "session:abc", "ping")
    await bench.publish(new_event("ping", stream="x"), new_event("ping", stream="y"), new_event("ping"))
    rows = await bench.rows()
    assert [row.waits_for for row in rows] == [None, "head of lane", "head of lane"]


async def test_an_event_published_for_later_is_due_later(bench: Bench) -> None:
    await bench.contract()
    at = datetime.fromtimestamp(bench.clock.now_ms() / 1000 + 60, UTC)
    await bench.publish(new_event("reminder", at=at))
    await bench.drain()
    assert bench.script.seen == []
    bench.clock.advance(61)
    await bench.drain()
    assert len(bench.script.seen) == 1


async def test_a_contract_matches_by_the_time_the_event_was_accepted(bench: Bench) -> None:
    await bench.contract(expires_at_ms=bench.clock.now_ms() + 1000)
    await bench.store.events.append([new_event("in.time")])
    bench.clock.advance(5)
    await bench.store.events.append([new_event("too.late")])
    await bench.route()
    assert [row.event_type for row in await bench.rows()] == ["in.time"]


async def test_a_contract_that_comes_between_two_looks_is_not_missed(bench: Bench) -> None:
    """The registry's version is checked in the transaction that uses it."""
    await bench.store.events.append([new_event("t.x")])
    async with bench.store.routing.batch(10) as batch:
        await bench.contract("new", "handler:h", "t.*")
        assert await batch.commit([]) is False
    await bench.route()
    assert [row.contract_id for row in await bench.rows()] == ["new"]


async def test_a_bad_direct_address_stops_nobody_behind_it(bench: Bench) -> None:
    await bench.contract("c", "handler:h", "fine")
    bad = NewEvent("odd", b"null", to="handler:no spaces please")
    await bench.store.events.append([bad, new_event("fine")])
    await bench.route()
    assert [row.event_type for row in await bench.rows()] == ["fine"]
