"""Pauses: paused deliveries stay pending, whatever else happens."""

from __future__ import annotations

from holdfast.domain.delivery import Claim, Delivered, Handed, Retry
from holdfast.testing.suite.harness import Harness, StoreSuite

LANE = "c s"


class PausesSuite(StoreSuite):
    async def test_a_paused_contract_is_not_served_and_resumes_where_it_was(self, harness: Harness) -> None:
        await harness.contract("held", "handler:a")
        await harness.contract("free", "handler:b")
        await harness.emit()
        await harness.route()
        assert await harness.store.operator.pause("contract", "held") is True
        assert await harness.store.operator.pause("contract", "held") is False
        assert [claim.delivery.contract_id for claim in await harness.claim()] == ["free"]
        (row,) = await harness.rows(contract="held")
        assert (row.state, row.waits_for) == ("pending", "paused")
        assert await harness.store.operator.resume("contract", "held") is True
        assert await harness.store.operator.resume("contract", "held") is False
        assert [claim.delivery.contract_id for claim in await harness.claim()] == ["held"]

    async def test_pauses_are_listed_with_their_time(self, harness: Harness) -> None:
        await harness.store.operator.pause("lane", LANE)
        await harness.store.operator.pause("address", "handler:h")
        now = harness.clock.now_ms()
        assert await harness.store.operator.pauses() == [("address", "handler:h", now), ("lane", LANE, now)]

    async def test_a_paused_address_pauses_every_queue_to_it(self, harness: Harness) -> None:
        await harness.contract("a", "handler:h")
        await harness.contract("b", "handler:h")
        await harness.emit(to="handler:h")
        await harness.route()
        await harness.store.operator.pause("address", "handler:h")
        assert await harness.claim() == []
        await harness.store.operator.resume("address", "handler:h")
        assert len(await harness.claim()) == 3

    async def test_a_pause_applies_to_queues_and_lanes_created_later(self, harness: Harness) -> None:
        for scope, name in (("address", "handler:h"), ("address", "session:x"), ("contract", "d"), ("lane", "e s")):
            await harness.store.operator.pause(scope, name)
        await harness.contract("c", "handler:h")
        await harness.contract("d", "handler:d")
        await harness.contract("e", "handler:e", ordered=True)
        await harness.emit(to="session:x", stream="s")
        await harness.route()
        assert len(await harness.rows(state="pending")) == 4
        assert await harness.claim() == []
        for scope, name, _ in await harness.store.operator.pauses():
            await harness.store.operator.resume(scope, name)
        assert len(await harness.claim()) == 4

    async def test_two_pauses_last_until_both_are_resumed(self, harness: Harness) -> None:
        await harness.contract("c", "handler:h")
        await harness.send()
        await harness.store.operator.pause("contract", "c")
        await harness.store.operator.pause("address", "handler:h")
        await harness.store.operator.resume("contract", "c")
        assert await harness.claim() == []
        await harness.store.operator.resume("address", "handler:h")
        assert len(await harness.claim()) == 1

    async def test_putting_a_paused_contract_again_does_not_resume_it(self, harness: Harness) -> None:
        await harness.contract()
        await harness.send()
        await harness.store.operator.pause("contract", "c")
        await harness.contract()
        assert await harness.claim() == []

    async def test_a_paused_lane_does_not_pause_the_others(self, harness: Harness) -> None:
        ids = await self._line(harness)
        other = await harness.send(stream="other")
        await harness.store.operator.pause("lane", LANE)
        assert [claim.delivery.id for claim in await harness.claim()] == [other]
        assert {(await harness.row(id)).waits_for for id in ids} == {"paused"}
        ids.append(await harness.send(stream="s"))
        assert await harness.claim() == []
        await harness.store.operator.resume("lane", LANE)
        assert [await harness.end(Delivered()) for _ in ids] == ids

    async def test_a_lane_paused_while_its_head_is_held_stops_after_it(self, harness: Harness) -> None:
        ids = await self._line(harness)
        claim = await harness.take()
        await harness.store.operator.pause("lane", LANE)
        assert await harness.settle(claim, Delivered())
        assert await harness.claim() == []
        await harness.store.operator.resume("lane", LANE)
        assert (await harness.take()).delivery.id == ids[1]

    async def test_a_paused_lane_stays_paused_when_its_head_comes_back(self, harness: Harness) -> None:
        """Failed, released, reclaimed or handed over: none of these bypasses a pause."""
        ids = await self._line(harness)
        for give_back in (self._retry, self._release, self._crash, self._hand):
            claim = await harness.take()
            await harness.store.operator.pause("lane", LANE)
            await give_back(harness, claim)
            harness.clock.advance(100)
            await harness.store.deliveries.reclaim()
            await harness.store.deliveries.resume_handed()
            assert await harness.claim() == []
            await harness.store.operator.resume("lane", LANE)
            await harness.store.deliveries.resume_handed()
            claim = await harness.take()
            assert claim.delivery.id == ids[0]
            await harness.store.deliveries.release([claim])

    async def test_resuming_a_lane_with_a_leased_head_does_not_offer_the_head_again(self, harness: Harness) -> None:
        await self._line(harness)
        claim = await harness.take()
        await harness.store.operator.pause("lane", LANE)
        await harness.store.operator.resume("lane", LANE)
        assert await harness.claim() == []
        assert await harness.settle(claim, Delivered())

    async def test_resuming_a_lane_with_a_handed_head_does_not_offer_the_head_again(self, harness: Harness) -> None:
        await self._line(harness)
        await harness.end(Handed(60))
        await harness.store.operator.pause("lane", LANE)
        await harness.store.operator.resume("lane", LANE)
        assert await harness.claim() == []

    async def test_a_paused_lane_survives_pruning(self, harness: Harness) -> None:
        await self._line(harness)
        await harness.end(Delivered())
        await harness.end(Delivered())
        await harness.store.operator.pause("lane", LANE)
        harness.clock.advance(10)
        await harness.prune(delivered_s=1)
        await harness.send(stream="s")
        assert await harness.claim() == []

    async def test_a_pause_survives_a_crash(self, harness: Harness) -> None:
        await self._line(harness)
        await harness.store.operator.pause("contract", "c")
        await harness.crash()
        assert await harness.claim() == []

    async def _line(self, harness: Harness) -> list[int]:
        await harness.contract("c", ordered=True)
        return [await harness.send(stream="s") for _ in range(2)]

    async def _retry(self, harness: Harness, claim: Claim) -> None:
        await harness.settle(claim, Retry("503"))

    async def _release(self, harness: Harness, claim: Claim) -> None:
        await harness.store.deliveries.release([claim])

    async def _crash(self, harness: Harness, claim: Claim) -> None:
        await harness.crash()

    async def _hand(self, harness: Harness, claim: Claim) -> None:
        await harness.settle(claim, Handed(5))
