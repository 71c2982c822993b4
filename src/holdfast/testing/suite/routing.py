"""Routing: inserting deliveries and advancing the router's position are one transaction."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from holdfast.domain.contract import Criterion
from holdfast.domain.event import new_event
from holdfast.store.roles.events import EventFilter
from holdfast.store.roles.routing import Plan, RouteTarget
from holdfast.testing.suite.harness import Harness, StoreSuite


class RoutingSuite(StoreSuite):
    async def test_an_event_waits_for_the_router_until_it_is_routed(self, harness: Harness) -> None:
        await harness.contract()
        await harness.emit()
        assert await harness.store.routing.backlog() == 1
        async with harness.store.routing.batch(10) as batch:
            assert len(batch.events) == 1
        assert await harness.store.routing.backlog() == 1
        assert await harness.rows() == []
        await harness.route()
        assert await harness.store.routing.backlog() == 0
        assert len(await harness.rows()) == 1

    async def test_events_come_in_stream_order(self, harness: Harness) -> None:
        await harness.store.events.append([new_event("t", stream=f"s{i % 3}") for i in range(30)])
        async with harness.store.routing.batch(20) as batch:
            assert len(batch.events) == 20
            for stream in ("s0", "s1", "s2"):
                seqs = [event.seq for event in batch.events if event.stream == stream]
                assert seqs == list(range(1, len(seqs) + 1))

    async def test_a_changed_contract_version_refuses_the_commit(self, harness: Harness) -> None:
        await harness.contract("old")
        await harness.emit()
        async with harness.store.routing.batch(10) as batch:
            plans = [await harness.plan(event, batch.due_at_ms) for event in batch.events]
            await harness.contract("new", "handler:other")
            assert await batch.commit(plans) is False
        assert await harness.rows() == []
        assert await harness.store.routing.backlog() == 1
        await harness.route()
        assert sorted(row.contract_id or "" for row in await harness.rows()) == ["new", "old"]

    async def test_committing_a_plan_twice_inserts_once(self, harness: Harness) -> None:
        await harness.contract()
        await harness.emit()
        async with harness.store.routing.batch(10) as batch:
            plans = [await harness.plan(event, batch.due_at_ms) for event in batch.events]
            assert await batch.commit(plans) is True
            await batch.commit(plans)
        assert len(await harness.rows()) == 1

    async def test_there_is_one_delivery_per_event_and_contract(self, harness: Harness) -> None:
        await harness.contract("a", "handler:same", ordered=True)
        await harness.contract("b", "handler:same")
        await harness.emit(stream="s")
        async with harness.store.routing.batch(10) as batch:
            n, targets, due = await harness.plan(batch.events[0], batch.due_at_ms)
            assert await batch.commit([Plan(n, targets + targets, due)])
        rows = await harness.rows()
        assert sorted(row.contract_id or "" for row in rows) == ["a", "b"]
        assert len(await harness.claim()) == 2

    async def test_an_event_that_matches_nothing_is_listed_as_unmatched(self, harness: Harness) -> None:
        await harness.contract(type_criterion=Criterion(match="wanted"))
        lost = await harness.emit("unwanted", stream="s")
        await harness.emit("wanted", stream="s")
        await harness.route()
        for wanted in (EventFilter(unmatched=True), EventFilter(unmatched=True, stream="s")):
            assert [event.id for event in (await harness.store.events.find(wanted, None, 10)).items] == [lost.id]
        assert (await harness.store.operator.figures()).unmatched == 1

    async def test_an_unmatched_event_can_be_routed_again(self, harness: Harness) -> None:
        one = await harness.emit()
        await harness.route()
        await harness.contract()
        assert await harness.store.events.reroute([one.id]) == 1
        assert await harness.store.events.reroute([one.id]) == 0
        await harness.route()
        assert [row.event_id for row in await harness.rows()] == [one.id]
        assert (await harness.store.events.find(EventFilter(unmatched=True), None, 10)).items == []

    async def test_an_event_that_was_matched_is_not_routed_again(self, harness: Harness) -> None:
        await harness.contract()
        one = await harness.emit()
        await harness.route()
        assert await harness.store.events.reroute([one.id]) == 0
        assert await harness.store.routing.backlog() == 0

    async def test_a_direct_address_gets_its_event_without_a_contract(self, harness: Harness) -> None:
        await harness.send(to="session:abc")
        await harness.send(to="session:abc")
        rows = await harness.rows()
        assert [(row.address, row.contract_id) for row in rows] == [("session:abc", None)] * 2
        assert len(await harness.store.contracts.queues()) == 1
        claim = await harness.take()
        assert (claim.delivery.address, claim.delivery.contract_id) == ("session:abc", None)

    async def test_a_delayed_event_is_due_at_its_time(self, harness: Harness) -> None:
        await harness.contract()
        at = datetime.fromtimestamp(harness.clock.now_ms() / 1000, UTC) + timedelta(seconds=60)
        await harness.send(at=at)
        asked = await harness.ask()
        assert (asked.claims, asked.next_due_ms) == ([], harness.clock.now_ms() + 60_000)
        harness.clock.advance(60)
        assert len(await harness.claim()) == 1

    async def test_a_routed_event_is_still_routed_after_a_crash(self, harness: Harness) -> None:
        await harness.contract()
        await harness.send()
        await harness.emit()
        await harness.crash()
        await harness.route()
        assert len(await harness.rows()) == 2

    async def test_a_routed_event_can_get_one_more_delivery(self, harness: Harness) -> None:
        appended = await harness.emit(stream="s")
        event = await harness.store.events.get(appended.id)
        assert event is not None
        plan = Plan(event.n, (RouteTarget(None, "handler:later", "handler", None),), 0)
        assert await harness.store.routing.deliver([plan]) == 0  # the router comes first
        await harness.route()
        assert (await harness.store.operator.figures()).unmatched == 1
        for _ in range(2):
            assert await harness.store.routing.deliver([plan]) == 1
        assert [row.address for row in await harness.rows(event=appended.id)] == ["handler:later"]
        assert (await harness.store.operator.figures()).unmatched == 0
        claim = await harness.take()
        assert claim.event.id == appended.id
