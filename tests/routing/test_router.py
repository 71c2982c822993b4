"""The router: from events to deliveries, in one transaction with its own place."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from engine_harness import EngineHarness
from holdfast.domain.event import NewEvent, new_event
from holdfast.routing.router import RECHECK_DELAYS_S


@pytest.fixture
async def harness(tmp_path: Path) -> EngineHarness:
    return await EngineHarness(tmp_path).start()


async def test_each_matching_contract_gets_its_own_delivery(harness: EngineHarness) -> None:
    await harness.contract("one", "handler:a", "order.*")
    await harness.contract("two", "handler:b", "*.placed")
    await harness.contract("three", "handler:c", "other")
    await harness.publish(new_event("order.placed"))
    assert sorted(row.contract_id or "" for row in await harness.rows()) == ["one", "two"]


async def test_an_unmatched_event_is_listed_and_can_be_routed_again(harness: EngineHarness) -> None:
    from holdfast.store.roles.events import EventFilter

    await harness.publish(new_event("lonely"))
    page = await harness.store.events.find(EventFilter(unmatched=True), None, 10)
    assert [event.type for event in page.items] == ["lonely"]
    await harness.contract("late", "handler:h", "lonely")
    assert await harness.store.events.reroute([page.items[0].id]) == 1
    await harness.route()
    assert [row.contract_id for row in await harness.rows()] == ["late"]
    assert (await harness.store.events.find(EventFilter(unmatched=True), None, 10)).items == []


async def test_a_direct_address_needs_no_contract(harness: EngineHarness) -> None:
    await harness.publish(new_event("hello", to="handler:h"))
    (row,) = await harness.rows()
    assert (row.address, row.contract_id) == ("handler:h", None)


async def test_messages_to_one_session_share_a_lane(harness: EngineHarness) -> None:
    await harness.contract("c", "session:abc", "ping")
    await harness.publish(new_event("ping", stream="x"), new_event("ping", stream="y"), new_event("ping"))
    rows = await harness.rows()
    assert [row.waits_for for row in rows] == [None, "head of lane", "head of lane"]


async def test_an_event_published_for_later_is_due_later(harness: EngineHarness) -> None:
    await harness.contract()
    at = datetime.fromtimestamp(harness.clock.now_ms() / 1000 + 60, UTC)
    await harness.publish(new_event("reminder", at=at))
    await harness.drain()
    assert harness.script.seen == []
    harness.clock.advance(61)
    await harness.drain()
    assert len(harness.script.seen) == 1


async def test_a_contract_matches_by_the_time_the_event_was_accepted(harness: EngineHarness) -> None:
    await harness.contract(expires_at_ms=harness.clock.now_ms() + 1000)
    await harness.store.events.append([new_event("in.time")])
    harness.clock.advance(5)
    await harness.store.events.append([new_event("too.late")])
    await harness.route()
    assert [row.event_type for row in await harness.rows()] == ["in.time"]


async def test_a_contract_that_comes_between_two_looks_is_not_missed(harness: EngineHarness) -> None:
    """The registry's version is checked in the transaction that uses it."""
    await harness.store.events.append([new_event("t.x")])
    async with harness.store.routing.batch(10) as batch:
        await harness.contract("new", "handler:h", "t.*")
        assert await batch.commit([]) is False
    await harness.route()
    assert [row.contract_id for row in await harness.rows()] == ["new"]


async def test_a_bad_direct_address_does_not_block_later_events(harness: EngineHarness) -> None:
    await harness.contract("c", "handler:h", "fine")
    bad = NewEvent("odd", b"null", to="handler:no spaces please")
    await harness.store.events.append([bad, new_event("fine")])
    await harness.route()
    assert [row.event_type for row in await harness.rows()] == ["fine"]


async def test_the_router_looks_again_for_events_that_were_committed_without_a_wake_up(
    harness: EngineHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A publisher sends no wake-up while other events wait, and may commit after those were routed."""
    monkeypatch.setattr(type(harness.store.routing), "misses_wakeups", True)
    assert await harness.router.tick() is None, "no event was routed yet"
    await harness.store.events.append([new_event("t.x")])
    assert await harness.router.tick() == 0.0
    assert [await harness.router.tick() for _ in RECHECK_DELAYS_S] == list(RECHECK_DELAYS_S)
    assert await harness.router.tick() is None
