"""Routing: deliveries in and the router's place forward, both or neither."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from holdfast.domain.contract import Criterion
from holdfast.domain.event import new_event
from holdfast.store.base import EventFilter, Plan
from holdfast.testing.suite.harness import Bench, StoreSuite


class RoutingSuite(StoreSuite):
    async def test_an_event_waits_for_the_router_until_it_is_routed(self, bench: Bench) -> None:
        await bench.contract()
        await bench.emit()
        assert await bench.store.routing.backlog() == 1
        async with bench.store.routing.batch(10) as batch:
            assert len(batch.events) == 1
        assert await bench.store.routing.backlog() == 1
        assert await bench.rows() == []
        await bench.route()
        assert await bench.store.routing.backlog() == 0
        assert len(await bench.rows()) == 1

    async def test_events_come_in_stream_order(self, bench: Bench) -> None:
        await bench.store.events.append([new_event("t", stream=f"s{i % 3}") for i in range(30)])
        async with bench.store.routing.batch(20) as batch:
            assert len(batch.events) == 20
            for stream in ("s0", "s1", "s2"):
                seqs = [event.seq for event in batch.events if event.stream == stream]
                assert seqs == list(range(1, len(seqs) + 1))

    async def test_a_changed_contract_version_refuses_the_commit(self, bench: Bench) -> None:
        await bench.contract("old")
        await bench.emit()
        async with bench.store.routing.batch(10) as batch:
            plans = [await bench.plan(event, batch.due_at_ms) for event in batch.events]
            await bench.contract("new", "handler:other")
            assert await batch.commit(plans) is False
        assert await bench.rows() == []
        assert await bench.store.routing.backlog() == 1
        await bench.route()
        assert sorted(row.contract_id or "" for row in await bench.rows()) == ["new", "old"]

    async def test_committing_a_plan_twice_inserts_once(self, bench: Bench) -> None:
        await bench.contract()
        await bench.emit()
        async with bench.store.routing.batch(10) as batch:
            plans = [await bench.plan(event, batch.due_at_ms) for event in batch.events]
            assert await batch.commit(plans) is True
            await batch.commit(plans)
        assert len(await bench.rows()) == 1

    async def test_there_is_one_delivery_per_event_and_contract(self, bench: Bench) -> None:
        await bench.contract("a", "handler:same", ordered=True)
        await bench.contract("b", "handler:same")
        await bench.emit(stream="s")
        async with bench.store.routing.batch(10) as batch:
            n, targets, due = await bench.plan(batch.events[0], batch.due_at_ms)
            assert await batch.commit([Plan(n, targets + targets, due)])
        rows = await bench.rows()
        assert sorted(row.contract_id or "" for row in rows) == ["a", "b"]
        assert len(await bench.claim()) == 2

    async def test_an_event_that_matches_nothing_is_listed_as_unmatched(self, bench: Bench) -> None:
        await bench.contract(type_criterion=Criterion(match="wanted"))
        lost = await bench.emit("unwanted", stream="s")
        await bench.emit("wanted", stream="s")
        await bench.route()
        for wanted in (EventFilter(unmatched=True), EventFilter(unmatched=True, stream="s")):
            assert [event.id for event in (await bench.store.events.find(wanted, None, 10)).items] == [lost.id]
        assert (await bench.store.operator.figures())["unmatched"] == 1

    async def test_an_unmatched_event_can_be_routed_again(self, bench: Bench) -> None:
        one = await bench.emit()
        await bench.route()
        await bench.contract()
        assert await bench.store.events.reroute([one.id]) == 1
        assert await bench.store.events.reroute([one.id]) == 0
        await bench.route()
        assert [row.event_id for row in await bench.rows()] == [one.id]
        assert (await bench.store.events.find(EventFilter(unmatched=True), None, 10)).items == []

    async def test_an_event_that_was_matched_is_not_routed_again(self, bench: Bench) -> None:
        await bench.contract()
        one = await bench.emit()
        await bench.route()
        assert await bench.store.events.reroute([one.id]) == 0
        assert await bench.store.routing.backlog() == 0

    async def test_a_direct_address_gets_its_event_without_a_contract(self, bench: Bench) -> None:
        await bench.send(to="session:abc")
        await bench.send(to="session:abc")
        rows = await bench.rows()
        assert [(row.address, row.contract_id) for row in rows] == [("session:abc", None)] * 2
        assert len(await bench.store.contracts.queues()) == 1
        claim = await bench.take()
        assert (claim.delivery.address, claim.delivery.contract_id) == ("session:abc", None)

    async def test_a_delayed_event_is_due_at_its_time(self, bench: Bench) -> None:
        await bench.contract()
        at = datetime.fromtimestamp(bench.clock.now_ms() / 1000, UTC) + timedelta(seconds=60)
        await bench.send(at=at)
        asked = await bench.ask()
        assert (asked.claims, asked.next_due_ms) == ([], bench.clock.now_ms() + 60_000)
        bench.clock.advance(60)
        assert len(await bench.claim()) == 1

    async def test_what_was_routed_is_routed_after_a_crash(self, bench: Bench) -> None:
        await bench.contract()
        await bench.send()
        await bench.emit()
        await bench.crash()
        await bench.route()
        assert len(await bench.rows()) == 2
