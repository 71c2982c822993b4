"""Operator verbs: lists, counts and repairs, each change with a receipt."""

from __future__ import annotations

from holdfast.domain.contract import Criterion
from holdfast.domain.delivery import Dead, Delivered, Dropped, Handed, Retry
from holdfast.domain.states import Reason
from holdfast.store.roles.operator import DeliveryFilter
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
        assert (await harness.store.operator.figures())["dead"] == 4

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
        assert figures["pending"] == len(await harness.rows(state="pending")) == 5
        assert (figures["in_flight"], figures["dead"], figures["lanes"]) == (1, 1, 1)
        assert (figures["unmatched"], figures["unrouted"], figures["streams"], figures["events"]) == (1, 1, 1, 9)
        assert figures["oldest_pending_ms"] == figures["next_due_ms"] == harness.clock.now_ms()

    async def test_figures_of_an_empty_store_are_zero_and_not_unknown(self, harness: Harness) -> None:
        figures = await harness.store.operator.figures()
        assert (figures.pop("next_due_ms"), figures.pop("oldest_pending_ms")) == (None, None)
        assert set(figures.values()) == {0}

    async def _dead(self, harness: Harness) -> int:
        await harness.contract()
        id = await harness.send()
        await harness.end(Dead(Reason.REJECTED, "no"))
        return id
