"""Settlements: what each outcome writes, and what is in the same transaction."""

from __future__ import annotations

from holdfast.domain.delivery import Dead, Delivered, Dropped, Handed, Retry
from holdfast.domain.event import new_event
from holdfast.domain.retry import POLICIES
from holdfast.domain.states import Reason
from holdfast.testing.suite.harness import Harness, StoreSuite


class SettlementsSuite(StoreSuite):
    async def test_delivered_is_an_end_without_reason_or_error(self, harness: Harness) -> None:
        row = await harness.row(await self._settled(harness, Delivered()))
        assert (row.state, row.reason, row.attempts, row.last_error) == ("delivered", None, 1, None)
        assert (row.settled_at_ms, row.due_at_ms, row.leased, row.waits_for) == (
            harness.clock.now_ms(), None, False, None,
        )  # fmt: skip

    async def test_dead_has_its_reason_and_error(self, harness: Harness) -> None:
        row = await harness.row(await self._settled(harness, Dead(Reason.REJECTED, "404 not found")))
        assert (row.state, row.reason, row.attempts, row.last_error) == ("dead", "rejected", 1, "404 not found")

    async def test_dropped_has_its_reason_and_survivor_and_burns_no_attempt(self, harness: Harness) -> None:
        row = await harness.row(await self._settled(harness, Dropped(Reason.COALESCED, survivor=77)))
        assert (row.state, row.reason, row.attempts, row.survivor) == ("dropped", "coalesced", 0, 77)

    async def test_a_retry_is_pending_and_due_later(self, harness: Harness) -> None:
        row = await harness.row(await self._settled(harness, Retry("503")))
        assert (row.state, row.attempts, row.due_at_ms) == ("pending", 1, harness.clock.now_ms() + 1000)
        assert (row.settled_at_ms, row.waits_for, row.last_error) == (None, "next attempt", "503")

    async def test_a_retry_after_the_last_attempt_is_dead(self, harness: Harness) -> None:
        await harness.contract()
        id = await harness.send()
        for _ in range(10):
            harness.clock.advance(100)
            await harness.end(Retry("503"))
        row = await harness.row(id)
        assert (row.state, row.reason, row.attempts) == ("dead", "exhausted", 10)

    async def test_a_policy_without_a_limit_retries_for_ever(self, harness: Harness) -> None:
        await harness.contract()
        id = await harness.send()
        for _ in range(60):
            harness.clock.advance(1000)
            await harness.settle(await harness.take(), Retry("no pane"), POLICIES["message"])
        row = await harness.row(id)
        assert (row.state, row.attempts) == ("pending", 60)

    async def test_handed_deliveries_leave_ready_and_come_back_at_their_time(self, harness: Harness) -> None:
        id = await self._settled(harness, Handed(5))
        assert (await harness.row(id)).waits_for == "confirmation"
        harness.clock.advance(4)
        assert await harness.store.deliveries.resume_handed() == 0
        assert await harness.claim() == []
        harness.clock.advance(1)
        assert await harness.store.deliveries.resume_handed() == 1
        claim = await harness.take()
        assert claim.delivery.handed
        await harness.settle(claim, Retry("it did not take it"))
        harness.clock.advance(5)
        assert not (await harness.take()).delivery.handed

    async def test_attempts_are_kept_in_order_with_their_detail(self, harness: Harness) -> None:
        await harness.contract()
        id = await harness.send()
        await harness.end(Retry("503", detail={"status": 503}))
        harness.clock.advance(5)
        await harness.end(Delivered(detail={"status": 204}))
        first, last = await harness.store.operator.attempts(id)
        assert (first.attempt, first.outcome, first.error, first.detail) == (1, "retry", "503", {"status": 503})
        assert (last.attempt, last.outcome, last.error, last.detail) == (2, "delivered", None, {"status": 204})
        assert last.ended_at_ms == harness.clock.now_ms()

    async def test_the_history_of_attempts_is_bounded(self, harness: Harness) -> None:
        await harness.contract()
        id = await harness.send()
        for _ in range(70):
            harness.clock.advance(1000)
            await harness.settle(await harness.take(), Retry("again"), POLICIES["message"])
        kept = await harness.store.operator.attempts(id)
        assert len(kept) < 70
        assert kept[-1].attempt == 70

    async def test_a_very_long_detail_is_cut_and_still_readable(self, harness: Harness) -> None:
        id = await self._settled(harness, Retry("503", detail={"body": "x" * 100_000}))
        (attempt,) = await harness.store.operator.attempts(id)
        assert attempt.detail is not None
        assert len(str(attempt.detail)) < 10_000

    async def test_effects_are_appended_with_the_settlement(self, harness: Harness) -> None:
        await self._settled(harness, Delivered(effects=[new_event("done", {"n": 1}, stream="s"), new_event("also")]))
        (event,) = await harness.store.events.read("s", 0, 10)
        assert (event.type, event.payload) == ("done", {"n": 1})
        assert await harness.store.routing.backlog() == 2

    async def test_effects_of_a_lost_lease_are_not_appended(self, harness: Harness) -> None:
        await harness.contract()
        await harness.send()
        stale = await harness.take()
        await harness.store.deliveries.release([stale])
        assert not await harness.settle(stale, Delivered(effects=[new_event("done", stream="s")]))
        assert await harness.store.events.stream("s") is None

    async def test_a_lost_lease_does_not_affect_the_others_in_its_batch(self, harness: Harness) -> None:
        await harness.contract()
        for _ in range(3):
            await harness.send()
        claims = await harness.claim()
        await harness.store.deliveries.release([claims[1]])
        assert await harness.settle_all([(claim, Delivered()) for claim in claims]) == {claims[1].delivery.id}
        assert [row.state for row in await harness.rows()] == ["delivered", "pending", "delivered"]

    async def test_a_listener_is_called_for_effects(self, harness: Harness) -> None:
        topics: list[str] = []
        harness.store.on_change(topics.append)
        await self._settled(harness, Delivered(effects=[new_event("done")]))
        assert "events" in topics

    async def _settled(self, harness: Harness, outcome: Delivered | Handed | Retry | Dead | Dropped) -> int:
        await harness.contract()
        await harness.send()
        return await harness.end(outcome)
