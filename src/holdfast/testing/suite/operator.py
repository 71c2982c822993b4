"""Operator verbs: lists, counts and repairs, each change with a receipt."""

from __future__ import annotations

from holdfast.domain.contract import Criterion
from holdfast.domain.delivery import Dead, Delivered, Dropped, Handed, Retry
from holdfast.domain.states import Reason
from holdfast.store.roles.operator import DeliveryFilter, StoreFigures
from holdfast.testing.suite.harness import Harness, StoreSuite

DEAD = frozenset({"dead"})
ENDED = frozenset({"dead", "delivered", "dropped"})


class OperatorSuite(StoreSuite):
    async def test_deliveries_are_listed_newest_first_and_page_to_the_end(self, harness: Harness) -> None:
        await harness.contract()
        ids = [await harness.send() for _ in range(7)]
        seen, after = list[int](), None
        while True:
            page = await harness.store.operator.deliveries(DeliveryFilter(), after, 3)
            seen += [row.id for row in page.items]
            if page.next is None:
                break
            after = page.next
        assert seen == ids[::-1]

    async def test_deliveries_are_filtered_by_every_column_at_once(self, harness: Harness) -> None:
        await harness.contract("a", "handler:a")
        await harness.contract("b", "https://example.com")
        events = [(await harness.emit(stream=f"s{i % 2}")).id for i in range(4)]
        await harness.route()
        for claim in await harness.claim(kinds=["handler"]):
            odd = claim.event.stream == "s1"
            await harness.settle(claim, Dead(Reason.REJECTED, "no") if odd else Delivered())
        assert len(await harness.rows(state="pending")) == 4
        assert len(await harness.rows(contract="a")) == 4
        assert len(await harness.rows(address="https://example.com", stream="s0")) == 2
        assert [row.event_id for row in await harness.rows(state="dead", reason="rejected")] == events[1::2]
        assert [row.contract_id for row in await harness.rows(event=events[0])] == ["a", "b"]
        assert await harness.rows(state="dead", contract="b") == []

    async def test_a_row_names_the_event_and_where_it_goes(self, harness: Harness) -> None:
        await harness.contract()
        event = await harness.emit("order.placed")
        await harness.route()
        (row,) = await harness.rows()
        assert (row.event_id, row.event_type, row.stream, row.seq) == (event.id, "order.placed", event.id, 1)
        assert (row.address, row.contract_id, row.state, row.generation) == ("handler:h", "c", "pending", 1)
        assert row.created_at_ms == row.due_at_ms == harness.clock.now_ms()

    async def test_a_lane_is_counted_listed_and_expired_in_its_order(self, harness: Harness) -> None:
        sent = [(await harness.emit(to="session:x", stream="s")).id for _ in range(3)]
        other = await harness.send(to="session:y")
        await harness.settle((await harness.claim())[0], Handed(60))
        assert await harness.store.operator.count_lane("session:x") == 3
        assert await harness.store.operator.count_lane("session:z") == 0
        head = await harness.store.operator.first_in_lane("session:x", 2)
        assert [event for _, event in head] == sent[:2]
        ids = [id for id, _ in await harness.store.operator.first_in_lane("session:x", 10)]
        assert await harness.store.operator.expire(harness.owner, ids, "api:tok_1") == ids
        assert [(row.state, row.reason) for row in await harness.rows(address="session:x")] == [
            ("dropped", "expired")
        ] * 3
        assert await harness.store.operator.count_lane("session:x") == 0
        assert await harness.store.operator.expire(harness.owner, ids, "api:tok_1") == []
        assert (await harness.row(other)).state == "pending"
        assert await harness.faults() == []

    async def test_the_deliveries_of_events_are_counted_by_state(self, harness: Harness) -> None:
        await harness.contract("a", "handler:a")
        await harness.contract("b", "handler:b")
        first, second = await harness.emit(), await harness.emit()
        await harness.route()
        for claim in await harness.claim():
            if claim.event.id == first.id and claim.delivery.contract_id == "a":
                await harness.settle(claim, Delivered())
        found = await harness.store.operator.states_of([first.id, second.id, "evt_none"])
        assert found == {first.id: {"delivered": 1, "pending": 1}, second.id: {"pending": 2}}

    async def test_an_unknown_delivery_is_none(self, harness: Harness) -> None:
        assert await harness.store.operator.delivery(404) is None
        assert await harness.store.operator.attempts(404) == []

    async def test_dead_letters_are_counted_by_queue(self, harness: Harness) -> None:
        assert await harness.store.operator.count_dead(DeliveryFilter()) == {}
        await harness.contract("a", "handler:a")
        for index in range(3):
            await harness.emit(to="session:x" if index == 0 else None, stream=f"s{index}")
        await harness.route()
        for claim in await harness.claim():
            await harness.settle(claim, Dead(Reason.REJECTED, "no"))
        count = harness.store.operator.count_dead
        assert await count(DeliveryFilter()) == {"a": 3, "session:x": 1}
        assert await count(DeliveryFilter(contract="a", stream="s1")) == {"a": 1}
        assert await count(DeliveryFilter(reason="exhausted")) == {}
        figures = await harness.store.operator.figures()
        assert (figures.dead, figures.dead_by_reason) == (4, {"rejected": 4})

    async def test_dead_letters_are_grouped_by_queue_and_reason(self, harness: Harness) -> None:
        groups = harness.store.operator.dead_groups
        assert await groups(DeliveryFilter()) == []
        await harness.contract("a", "handler:a")
        first = await harness.emit(stream="s0")
        await harness.emit(to="session:x")
        await harness.route()
        for claim in await harness.claim():
            reason = Reason.REJECTED if claim.event.id == first.id else Reason.NO_SESSION
            await harness.settle(claim, Dead(reason, "no"))
        rejected = ("a", "handler:a", "rejected", 1)
        assert sorted(await groups(DeliveryFilter()), key=str) == [
            ("a", "handler:a", "no_session", 1),
            rejected,
            (None, "session:x", "no_session", 1),
        ]
        assert await groups(DeliveryFilter(reason="rejected")) == [rejected]
        assert await groups(DeliveryFilter(address="session:x")) == [(None, "session:x", "no_session", 1)]
        assert await groups(DeliveryFilter(event=first.id)) == [rejected]
        assert await groups(DeliveryFilter(stream="s0", contract="a")) == [rejected]

    async def test_dead_letters_are_chosen_the_oldest_first(self, harness: Harness) -> None:
        await harness.contract("a", "handler:a")
        await harness.contract("b", "handler:b")
        for index in range(4):
            await harness.emit(stream=f"s{index % 2}")
        await harness.route()
        for claim in reversed(await harness.claim()):
            await harness.settle(claim, Dead(Reason.REJECTED, "no"))
        dead = [row.id for row in await harness.rows(state="dead", contract="a")]
        chosen = harness.store.operator.dead_ids
        assert await chosen(DeliveryFilter(contract="a"), 100) == sorted(dead)
        assert await chosen(DeliveryFilter(contract="a"), 2) == sorted(dead)[:2]
        assert len(await chosen(DeliveryFilter(), 100)) == 8
        assert len(await chosen(DeliveryFilter(stream="s1", address="handler:b"), 100)) == 2
        assert await chosen(DeliveryFilter(reason="exhausted"), 100) == []

    async def test_pending_and_leased_deliveries_of_an_address_are_counted(self, harness: Harness) -> None:
        count = harness.store.operator.count_ready
        assert await count("handler:a") == (0, 0)
        await harness.contract("a", "handler:a")
        await harness.contract("b", "handler:b")
        for _ in range(3):
            await harness.emit()
        await harness.route()
        claims = await harness.claim(limit=4)
        assert sum(claim.delivery.address == "handler:a" for claim in claims) == 2
        assert await count("handler:a") == (1, 2)
        for claim in claims:
            await harness.settle(claim, Retry("later") if claim.delivery.address == "handler:a" else Delivered())
        assert (await count("handler:a"), await count("handler:b")) == ((3, 0), (1, 0))

    async def test_what_waits_for_a_queue_is_counted_with_its_age(self, harness: Harness) -> None:
        backlog = harness.store.operator.backlog
        assert await backlog("plain") is None
        await harness.contract("plain", "handler:a")
        await harness.contract("ordered", "handler:b", ordered=True, type_criterion=Criterion(match=("o",)))
        assert await backlog("plain") == ("plain", "plain", 0, 0, None)
        started_ms = harness.clock.now_ms()
        for stream in ("s1", "s1", "s1", "s2", None):
            await harness.emit("o", stream=stream)
        await harness.route()
        harness.clock.advance(60)
        await harness.emit("t", to="session:x")
        await harness.emit("t", to="session:x")
        await harness.route()
        assert await backlog("plain") == ("plain", "plain", 7, 0, started_ms)
        assert await backlog("ordered") == ("ordered", "ordered", 5, 0, started_ms)
        assert await backlog("session:x") == ("session:x", None, 2, 0, harness.clock.now_ms())
        (claim,) = await harness.claim(kinds=["session"])
        assert await backlog("session:x") == ("session:x", None, 2, 1, harness.clock.now_ms())
        await harness.settle(claim, Handed(60))
        assert await backlog("session:x") == ("session:x", None, 2, 0, None)
        await harness.store.operator.pause("lane", "ordered s1")
        assert await backlog("ordered") == ("ordered", "ordered", 5, 0, started_ms)

    async def test_a_lane_whose_head_fails_is_stuck_if_others_wait(self, harness: Harness) -> None:
        stuck = harness.store.operator.stuck_lanes
        await harness.contract("ordered", "handler:b", ordered=True)
        since_ms = harness.clock.now_ms()
        first = await harness.emit(stream="s")
        await harness.route()
        claim = await harness.take()
        await harness.settle(claim, Retry("503"))
        assert await stuck(5) == [], "nothing waits behind the head"
        await harness.emit(stream="s")
        await harness.emit(stream="other")
        await harness.emit(stream="other")
        await harness.route()
        assert await stuck(5) == [("ordered s", 2, claim.delivery.id, first.id, 1, "503", since_ms)]
        assert await stuck(0) == []

    async def test_what_waits_in_paused_lanes_is_counted_too(self, harness: Harness) -> None:
        await harness.contract("ordered", "handler:b", ordered=True)
        for _ in range(3):
            await harness.emit(stream="s")
        await harness.route()
        await harness.store.operator.pause("lane", "ordered s")
        assert await harness.store.operator.backlog("ordered") == ("ordered", "ordered", 3, 0, None)

    async def test_reprocess_starts_the_next_generation_with_no_attempts(self, harness: Harness) -> None:
        id = await self._dead(harness)
        assert await harness.store.operator.reprocess(harness.owner, [id, 404], DEAD, "me") == [id]
        row = await harness.row(id)
        assert (row.state, row.reason, row.generation, row.attempts) == ("pending", None, 2, 0)
        claim = await harness.take()
        assert (claim.delivery.id, claim.delivery.generation, claim.delivery.attempts) == (id, 2, 0)
        assert [attempt.generation for attempt in await harness.store.operator.attempts(id)] == [1]

    async def test_reprocess_touches_only_the_states_it_was_given(self, harness: Harness) -> None:
        dead = await self._dead(harness)
        pending = await harness.send()
        assert (
            await harness.store.operator.reprocess(harness.owner, [dead, pending], frozenset({"delivered"}), "me") == []
        )
        assert await harness.store.operator.reprocess(harness.owner, [dead, pending, dead], DEAD, "me") == [dead]

    async def test_every_ended_delivery_can_be_reprocessed(self, harness: Harness) -> None:
        await harness.contract()
        for outcome in (Delivered(), Dead(Reason.REJECTED, "no"), Dropped(Reason.EXPIRED)):
            id = await harness.send()
            await harness.end(outcome)
            assert await harness.store.operator.reprocess(harness.owner, [id], ENDED, "me") == [id]
            assert await harness.end(Delivered()) == id

    async def test_reprocess_goes_to_the_tail_of_its_lane(self, harness: Harness) -> None:
        await harness.contract(ordered=True)
        first, second, third = [await harness.send(stream="s") for _ in range(3)]
        assert await harness.end(Dead(Reason.REJECTED, "no")) == first
        await harness.store.operator.reprocess(harness.owner, [first], DEAD, "me")
        assert [await harness.end(Delivered()) for _ in range(3)] == [second, third, first]

    async def test_reprocess_into_an_empty_and_pruned_lane_is_claimable(self, harness: Harness) -> None:
        await harness.contract(ordered=True)
        id = await harness.send(stream="s")
        await harness.end(Dead(Reason.REJECTED, "no"))
        await harness.prune()
        other = await harness.send(stream="other")
        await harness.store.operator.reprocess(harness.owner, [id], DEAD, "me")
        after = await harness.send(stream="s")
        assert {claim.delivery.id for claim in await harness.claim()} == {other, id}
        assert (await harness.row(after)).waits_for == "head of lane"

    async def test_discard_takes_only_dead_deliveries(self, harness: Harness) -> None:
        dead = await self._dead(harness)
        pending = await harness.send()
        assert await harness.store.operator.discard(harness.owner, [dead, dead, pending], "me") == [dead]
        row = await harness.row(dead)
        assert (row.state, row.reason, row.attempts) == ("dropped", "discarded", 1)
        assert (await harness.row(pending)).state == "pending"

    async def test_cancel_ends_pending_deliveries(self, harness: Harness) -> None:
        await harness.contract()
        id = await harness.send()
        assert await harness.store.operator.cancel(harness.owner, [id, id, 404], "me") == [id]
        row = await harness.row(id)
        assert (row.state, row.reason) == ("dropped", "cancelled")
        assert await harness.claim() == []
        assert await harness.store.operator.cancel(harness.owner, [id], "me") == []

    async def test_cancel_of_the_same_head_twice_in_one_call_advances_its_lane_once(self, harness: Harness) -> None:
        await harness.contract(ordered=True)
        first, second = await harness.send(stream="s"), await harness.send(stream="s")
        assert await harness.store.operator.cancel(harness.owner, [first, first], "me") == [first]
        third = await harness.send(stream="s")
        assert [await harness.end(Delivered()) for _ in range(2)] == [second, third]

    async def test_cancelling_a_leased_delivery_refuses_the_holders_settlement(self, harness: Harness) -> None:
        await harness.contract(ordered=True)
        first, second = await harness.send(stream="s"), await harness.send(stream="s")
        claim = await harness.take()
        assert await harness.store.operator.cancel(harness.owner, [first], "me") == [first]
        assert await harness.settle(claim, Delivered()) is False
        assert (await harness.row(first)).reason == "cancelled"
        assert (await harness.take()).delivery.id == second

    async def test_hasten_makes_a_pending_delivery_due_now(self, harness: Harness) -> None:
        await harness.contract()
        id = await harness.send()
        await harness.end(Retry("503", after_s=600))
        assert await harness.claim() == []
        assert await harness.store.operator.make_due([id, 404]) == [id]
        assert await harness.store.operator.make_due([id]) == []
        assert (await harness.take()).delivery.attempts == 1

    async def test_hasten_does_not_affect_a_leased_delivery(self, harness: Harness) -> None:
        await harness.contract()
        id = await harness.send()
        claim = await harness.take()
        assert await harness.store.operator.make_due([id]) == []
        assert await harness.settle(claim, Delivered())

    async def test_figures_add_up(self, harness: Harness) -> None:
        await harness.contract("a", "handler:a", ordered=True, type_criterion=Criterion(match="ordered"))
        await harness.contract("b", "handler:b", type_criterion=Criterion(match="plain"))
        for _ in range(3):
            await harness.emit("ordered", stream="s")
        for _ in range(4):
            await harness.emit("plain")
        await harness.emit("nobody")
        await harness.route()
        await harness.emit("plain")
        claims = await harness.claim(kinds=[], addresses=["handler:b"])
        await harness.settle(claims[0], Dead(Reason.REJECTED, "no"))
        await harness.settle(claims[1], Delivered())
        await harness.settle(claims[2], Handed(5))
        figures = await harness.store.operator.figures()
        assert figures.pending == len(await harness.rows(state="pending")) == 5
        assert (figures.in_flight, figures.dead, figures.lanes) == (1, 1, 1)
        assert (figures.unmatched, figures.unrouted, figures.streams, figures.events) == (1, 1, 1, 9)
        assert figures.oldest_pending_ms == figures.next_due_ms == harness.clock.now_ms()

    async def test_pending_deliveries_are_counted_by_queue(self, harness: Harness) -> None:
        await harness.contract("a", "handler:a", ordered=True, type_criterion=Criterion(match="ordered"))
        await harness.contract("b", "handler:b", type_criterion=Criterion(match="plain"))
        for stream in ("s", "s", "s", "t", "t", None):
            await harness.emit("ordered", stream=stream)
        for _ in range(4):
            await harness.emit("plain")
        await harness.emit("direct", to="handler:c")
        await harness.route()
        assert await harness.store.operator.count_pending(10) == {"a": 6, "b": 4, "handler:c": 1}
        assert await harness.store.operator.count_pending(1) == {"a": 6}
        for claim in await harness.claim(kinds=[], addresses=["handler:a"]):
            await harness.settle(claim, Handed(5))
        for claim in (await harness.claim(kinds=[], addresses=["handler:b"]))[:2]:
            await harness.settle(claim, Handed(5) if claim.event.n % 2 else Delivered())
        assert await harness.store.operator.count_pending(10) == {"a": 6, "b": 3, "handler:c": 1}
        await harness.store.operator.pause("lane", "a s")
        assert await harness.store.operator.count_pending(10) == {"a": 6, "b": 3, "handler:c": 1}

    async def test_figures_of_an_empty_store_are_zero_and_not_unknown(self, harness: Harness) -> None:
        figures = await harness.store.operator.figures()
        assert figures == StoreFigures(0, 0, 0, 0, 0, 0, 0, {}, next_due_ms=None, oldest_pending_ms=None)

    async def _dead(self, harness: Harness) -> int:
        await harness.contract()
        id = await harness.send()
        await harness.end(Dead(Reason.REJECTED, "no"))
        return id
