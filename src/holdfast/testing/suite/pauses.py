"""Pauses: held without being touched, whatever happens meanwhile."""

from __future__ import annotations

from holdfast.domain.delivery import Claim, Delivered, Handed, Retry
from holdfast.testing.suite.harness import Bench, StoreSuite

LANE = "c s"


class PausesSuite(StoreSuite):
    async def test_a_paused_contract_is_not_served_and_resumes_where_it_was(self, bench: Bench) -> None:
        await bench.contract("held", "handler:a")
        await bench.contract("free", "handler:b")
        await bench.emit()
        await bench.route()
        assert await bench.store.operator.pause("contract", "held") is True
        assert await bench.store.operator.pause("contract", "held") is False
        assert [claim.delivery.contract_id for claim in await bench.claim()] == ["free"]
        (row,) = await bench.rows(contract="held")
        assert (row.state, row.waits_for) == ("pending", "paused")
        assert await bench.store.operator.resume("contract", "held") is True
        assert await bench.store.operator.resume("contract", "held") is False
        assert [claim.delivery.contract_id for claim in await bench.claim()] == ["held"]

    async def test_pauses_are_listed_with_their_time(self, bench: Bench) -> None:
        await bench.store.operator.pause("lane", LANE)
        await bench.store.operator.pause("address", "handler:h")
        now = bench.clock.now_ms()
        assert await bench.store.operator.pauses() == [("address", "handler:h", now), ("lane", LANE, now)]

    async def test_a_paused_address_holds_every_queue_that_leads_there(self, bench: Bench) -> None:
        await bench.contract("a", "handler:h")
        await bench.contract("b", "handler:h")
        await bench.emit(to="handler:h")
        await bench.route()
        await bench.store.operator.pause("address", "handler:h")
        assert await bench.claim() == []
        await bench.store.operator.resume("address", "handler:h")
        assert len(await bench.claim()) == 3

    async def test_a_pause_holds_queues_and_lanes_that_are_made_later(self, bench: Bench) -> None:
        for scope, name in (("address", "handler:h"), ("address", "session:x"), ("contract", "d"), ("lane", "e s")):
            await bench.store.operator.pause(scope, name)
        await bench.contract("c", "handler:h")
        await bench.contract("d", "handler:d")
        await bench.contract("e", "handler:e", ordered=True)
        await bench.emit(to="session:x", stream="s")
        await bench.route()
        assert len(await bench.rows(state="pending")) == 4
        assert await bench.claim() == []
        for scope, name, _ in await bench.store.operator.pauses():
            await bench.store.operator.resume(scope, name)
        assert len(await bench.claim()) == 4

    async def test_two_pauses_hold_until_both_are_resumed(self, bench: Bench) -> None:
        await bench.contract("c", "handler:h")
        await bench.send()
        await bench.store.operator.pause("contract", "c")
        await bench.store.operator.pause("address", "handler:h")
        await bench.store.operator.resume("contract", "c")
        assert await bench.claim() == []
        await bench.store.operator.resume("address", "handler:h")
        assert len(await bench.claim()) == 1

    async def test_putting_a_paused_contract_again_does_not_resume_it(self, bench: Bench) -> None:
        await bench.contract()
        await bench.send()
        await bench.store.operator.pause("contract", "c")
        await bench.contract()
        assert await bench.claim() == []

    async def test_a_paused_lane_is_held_and_the_others_go_on(self, bench: Bench) -> None:
        ids = await self._line(bench)
        other = await bench.send(stream="other")
        await bench.store.operator.pause("lane", LANE)
        assert [claim.delivery.id for claim in await bench.claim()] == [other]
        assert {(await bench.row(id)).waits_for for id in ids} == {"paused"}
        ids.append(await bench.send(stream="s"))
        assert await bench.claim() == []
        await bench.store.operator.resume("lane", LANE)
        assert [await bench.end(Delivered()) for _ in ids] == ids

    async def test_a_lane_paused_while_its_head_is_held_stops_after_it(self, bench: Bench) -> None:
        ids = await self._line(bench)
        claim = await bench.take()
        await bench.store.operator.pause("lane", LANE)
        assert await bench.settle(claim, Delivered())
        assert await bench.claim() == []
        await bench.store.operator.resume("lane", LANE)
        assert (await bench.take()).delivery.id == ids[1]

    async def test_a_paused_lane_stays_paused_when_its_head_comes_back(self, bench: Bench) -> None:
        """Failed, given back, left by a dead owner or handed over: none of them is a way around a pause."""
        ids = await self._line(bench)
        for give_back in (self._retry, self._release, self._crash, self._hand):
            claim = await bench.take()
            await bench.store.operator.pause("lane", LANE)
            await give_back(bench, claim)
            bench.clock.advance(100)
            await bench.store.deliveries.reclaim()
            await bench.store.deliveries.resume_handed()
            assert await bench.claim() == []
            await bench.store.operator.resume("lane", LANE)
            await bench.store.deliveries.resume_handed()
            claim = await bench.take()
            assert claim.delivery.id == ids[0]
            await bench.store.deliveries.release([claim])

    async def test_resuming_a_lane_whose_head_is_held_gives_it_to_nobody_else(self, bench: Bench) -> None:
        await self._line(bench)
        claim = await bench.take()
        await bench.store.operator.pause("lane", LANE)
        await bench.store.operator.resume("lane", LANE)
        assert await bench.claim() == []
        assert await bench.settle(claim, Delivered())

    async def test_resuming_a_lane_whose_head_was_handed_over_does_not_take_it_back(self, bench: Bench) -> None:
        await self._line(bench)
        await bench.end(Handed(60))
        await bench.store.operator.pause("lane", LANE)
        await bench.store.operator.resume("lane", LANE)
        assert await bench.claim() == []

    async def test_a_paused_lane_survives_pruning(self, bench: Bench) -> None:
        await self._line(bench)
        await bench.end(Delivered())
        await bench.end(Delivered())
        await bench.store.operator.pause("lane", LANE)
        bench.clock.advance(10)
        await bench.prune(delivered_s=1)
        await bench.send(stream="s")
        assert await bench.claim() == []

    async def test_a_pause_survives_a_crash(self, bench: Bench) -> None:
        await self._line(bench)
        await bench.store.operator.pause("contract", "c")
        await bench.crash()
        assert await bench.claim() == []

    async def _line(self, bench: Bench) -> list[int]:
        await bench.contract("c", ordered=True)
        return [await bench.send(stream="s") for _ in range(2)]

    async def _retry(self, bench: Bench, claim: Claim) -> None:
        await bench.settle(claim, Retry("503"))

    async def _release(self, bench: Bench, claim: Claim) -> None:
        await bench.store.deliveries.release([claim])

    async def _crash(self, bench: Bench, claim: Claim) -> None:
        await bench.crash()

    async def _hand(self, bench: Bench, claim: Claim) -> None:
        await bench.settle(claim, Handed(5))
