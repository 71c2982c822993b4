"""Settlements: what an outcome writes, and what goes into the same transaction."""

from __future__ import annotations

from holdfast.domain.delivery import Dead, Delivered, Dropped, Handed, Retry
from holdfast.domain.event import new_event
from holdfast.domain.retry import POLICIES
from holdfast.domain.states import Reason
from holdfast.testing.suite.harness import Bench, StoreSuite


class SettlementsSuite(StoreSuite):
    async def test_delivered_is_an_end_without_reason_or_error(self, bench: Bench) -> None:
        row = await bench.row(await self._settled(bench, Delivered()))
        assert (row.state, row.reason, row.attempts, row.last_error) == ("delivered", None, 1, None)
        assert (row.settled_at_ms, row.due_at_ms, row.leased, row.waits_for) == (
            bench.clock.now_ms(), None, False, None,
        )  # fmt: skip

    async def test_dead_has_its_reason_and_error(self, bench: Bench) -> None:
        row = await bench.row(await self._settled(bench, Dead(Reason.REJECTED, "404 not found")))
        assert (row.state, row.reason, row.attempts, row.last_error) == ("dead", "rejected", 1, "404 not found")

    async def test_dropped_has_its_reason_and_survivor_and_burns_no_attempt(self, bench: Bench) -> None:
        row = await bench.row(await self._settled(bench, Dropped(Reason.COALESCED, survivor=77)))
        assert (row.state, row.reason, row.attempts, row.survivor) == ("dropped", "coalesced", 0, 77)

    async def test_a_retry_is_pending_and_due_later(self, bench: Bench) -> None:
        row = await bench.row(await self._settled(bench, Retry("503")))
        assert (row.state, row.attempts, row.due_at_ms) == ("pending", 1, bench.clock.now_ms() + 1000)
        assert (row.settled_at_ms, row.waits_for, row.last_error) == (None, "next attempt", "503")

    async def test_a_retry_after_the_last_attempt_is_dead(self, bench: Bench) -> None:
        await bench.contract()
        id = await bench.send()
        for _ in range(10):
            bench.clock.advance(100)
            await bench.end(Retry("503"))
        row = await bench.row(id)
        assert (row.state, row.reason, row.attempts) == ("dead", "exhausted", 10)

    async def test_a_policy_without_a_limit_retries_for_ever(self, bench: Bench) -> None:
        await bench.contract()
        id = await bench.send()
        for _ in range(60):
            bench.clock.advance(1000)
            await bench.settle(await bench.take(), Retry("no pane"), POLICIES["message"])
        row = await bench.row(id)
        assert (row.state, row.attempts) == ("pending", 60)

    async def test_handed_deliveries_leave_ready_and_come_back_at_their_time(self, bench: Bench) -> None:
        id = await self._settled(bench, Handed(5))
        assert (await bench.row(id)).waits_for == "confirmation"
        bench.clock.advance(4)
        assert await bench.store.deliveries.resume_handed() == 0
        assert await bench.claim() == []
        bench.clock.advance(1)
        assert await bench.store.deliveries.resume_handed() == 1
        claim = await bench.take()
        assert claim.delivery.handed
        await bench.settle(claim, Retry("it did not take it"))
        bench.clock.advance(5)
        assert not (await bench.take()).delivery.handed

    async def test_attempts_are_kept_in_order_with_what_was_seen(self, bench: Bench) -> None:
        await bench.contract()
        id = await bench.send()
        await bench.end(Retry("503", detail={"status": 503}))
        bench.clock.advance(5)
        await bench.end(Delivered(detail={"status": 204}))
        first, last = await bench.store.operator.attempts(id)
        assert (first.attempt, first.outcome, first.error, first.detail) == (1, "retry", "503", {"status": 503})
        assert (last.attempt, last.outcome, last.error, last.detail) == (2, "delivered", None, {"status": 204})
        assert last.ended_at_ms == bench.clock.now_ms()

    async def test_the_history_of_attempts_is_bounded(self, bench: Bench) -> None:
        await bench.contract()
        id = await bench.send()
        for _ in range(70):
            bench.clock.advance(1000)
            await bench.settle(await bench.take(), Retry("again"), POLICIES["message"])
        kept = await bench.store.operator.attempts(id)
        assert len(kept) < 70
        assert kept[-1].attempt == 70

    async def test_a_very_long_detail_is_cut_and_still_readable(self, bench: Bench) -> None:
        id = await self._settled(bench, Retry("503", detail={"body": "x" * 100_000}))
        (attempt,) = await bench.store.operator.attempts(id)
        assert attempt.detail is not None
        assert len(str(attempt.detail)) < 10_000

    async def test_effects_are_appended_with_the_settlement(self, bench: Bench) -> None:
        await self._settled(bench, Delivered(effects=[new_event("done", {"n": 1}, stream="s"), new_event("also")]))
        (event,) = await bench.store.events.read("s", 0, 10)
        assert (event.type, event.payload) == ("done", {"n": 1})
        assert await bench.store.routing.backlog() == 2

    async def test_effects_of_a_lost_lease_are_not_appended(self, bench: Bench) -> None:
        await bench.contract()
        await bench.send()
        stale = await bench.take()
        await bench.store.deliveries.release([stale])
        assert not await bench.settle(stale, Delivered(effects=[new_event("done", stream="s")]))
        assert await bench.store.events.stream("s") is None

    async def test_a_lost_lease_does_not_disturb_the_others_of_its_batch(self, bench: Bench) -> None:
        await bench.contract()
        for _ in range(3):
            await bench.send()
        claims = await bench.claim()
        await bench.store.deliveries.release([claims[1]])
        assert await bench.settle_all([(claim, Delivered()) for claim in claims]) == {claims[1].delivery.id}
        assert [row.state for row in await bench.rows()] == ["delivered", "pending", "delivered"]

    async def test_a_listener_hears_of_effects(self, bench: Bench) -> None:
        heard: list[str] = []
        bench.store.on_change(heard.append)
        await self._settled(bench, Delivered(effects=[new_event("done")]))
        assert "events" in heard

    async def _settled(self, bench: Bench, outcome: Delivered | Handed | Retry | Dead | Dropped) -> int:
        await bench.contract()
        await bench.send()
        return await bench.end(outcome)
