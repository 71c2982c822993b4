"""Lanes: delivery n+1 is not attempted before delivery n has ended."""

from __future__ import annotations

from holdfast.domain.delivery import Dead, Delivered, Dropped, Handed, Outcome, Retry
from holdfast.domain.event import new_event
from holdfast.domain.states import Reason
from holdfast.testing.suite.harness import Harness, StoreSuite


class LanesSuite(StoreSuite):
    async def test_only_the_head_of_a_lane_is_claimable(self, harness: Harness) -> None:
        ids = await self._line(harness, 3)
        assert [claim.delivery.id for claim in await harness.claim()] == ids[:1]
        assert await harness.claim() == []
        assert [(await harness.row(id)).waits_for for id in ids] == [None, "head of lane", "head of lane"]

    async def test_a_lane_is_served_in_the_order_of_its_stream(self, harness: Harness) -> None:
        ids = await self._line(harness, 5)
        assert [await harness.end(Delivered()) for _ in ids] == ids
        assert await harness.claim() == []

    async def test_each_stream_has_its_own_lane(self, harness: Harness) -> None:
        await harness.contract(ordered=True)
        for stream in ("a", "b", "a", "b"):
            await harness.emit(stream=stream)
        await harness.route()
        assert [(claim.event.stream, claim.event.seq) for claim in await harness.claim()] == [("a", 1), ("b", 1)]

    async def test_each_contract_has_its_own_lane(self, harness: Harness) -> None:
        await harness.contract("one", ordered=True)
        await harness.contract("two", ordered=True)
        await harness.emit(stream="s")
        await harness.route()
        assert len(await harness.claim()) == 2

    async def test_an_event_without_a_stream_is_in_no_lane(self, harness: Harness) -> None:
        await harness.contract(ordered=True)
        await harness.send()
        await harness.send()
        assert len(await harness.claim()) == 2

    async def test_a_session_is_one_lane_whatever_stream_a_message_came_from(self, harness: Harness) -> None:
        await harness.contract("c", "session:x")
        one = (await harness.emit(stream="a")).id
        two = (await harness.emit(to="session:x", source="hook")).id
        three = (await harness.emit(stream="b")).id
        await harness.route()
        ends = []
        while claims := await harness.claim():
            assert len(claims) == 1
            ends.append(claims[0].event.id)
            await harness.settle(claims[0], Delivered())
        assert ends == [one, two, three]

    async def test_a_failing_head_blocks_its_lane_until_its_end(self, harness: Harness) -> None:
        ids = await self._line(harness, 2)
        for _ in range(5):
            assert await harness.end(Retry("503")) == ids[0]
            assert await harness.claim() == []
            harness.clock.advance(100)
        await harness.end(Dead(Reason.REJECTED, "no"))
        assert (await harness.take()).delivery.id == ids[1]

    async def test_a_failing_head_does_not_block_other_lanes(self, harness: Harness) -> None:
        await self._line(harness, 2, "a")
        await self._line(harness, 2, "b")
        head, _ = await harness.claim()
        await harness.settle(head, Retry("503"))
        assert [claim.event.stream for claim in await harness.claim()] == []
        harness.clock.advance(2)
        assert [claim.event.stream for claim in await harness.claim()] == ["a"]

    async def test_a_retry_keeps_its_position(self, harness: Harness) -> None:
        ids = await self._line(harness, 1)
        await harness.end(Retry("503"))
        ids += await self._line(harness, 2)
        harness.clock.advance(2)
        assert [await harness.end(Delivered()) for _ in ids] == ids

    async def test_an_ordered_lane_continues_after_any_end(self, harness: Harness) -> None:
        ends: list[Outcome] = [Delivered(), Dead(Reason.REJECTED, "no"), Dropped(Reason.EXPIRED), Delivered()]
        ids = await self._line(harness, len(ends))
        assert [await harness.end(outcome) for outcome in ends] == ids
        assert [(await harness.row(id)).state for id in ids] == ["delivered", "dead", "dropped", "delivered"]

    async def test_a_lane_continues_after_its_head_is_exhausted(self, harness: Harness) -> None:
        ids = await self._line(harness, 2)
        for _ in range(10):
            harness.clock.advance(100)
            assert await harness.end(Retry("503")) == ids[0]
        row = await harness.row(ids[0])
        assert (row.state, row.reason, row.attempts, row.last_error) == ("dead", "exhausted", 10, "503")
        assert await harness.end(Delivered()) == ids[1]

    async def test_a_handed_head_blocks_its_lane_without_a_lease(self, harness: Harness) -> None:
        ids = await self._line(harness, 2)
        await harness.end(Handed(5))
        assert await harness.claim() == []
        row = await harness.row(ids[0])
        assert (row.state, row.leased, row.waits_for) == ("pending", False, "confirmation")
        assert await harness.store.deliveries.resume_handed() == 0

    async def test_handed_deliveries_come_back_at_their_time_and_stay_the_head(self, harness: Harness) -> None:
        ids = await self._line(harness, 2)
        await harness.end(Handed(5))
        harness.clock.advance(5)
        assert await harness.store.deliveries.resume_handed() == 1
        assert await harness.store.deliveries.resume_handed() == 0
        claim = await harness.take()
        assert (claim.delivery.id, claim.delivery.handed, claim.delivery.attempts) == (ids[0], True, 1)
        await harness.settle(claim, Delivered())
        assert (await harness.take()).delivery.id == ids[1]

    async def test_the_head_of_a_lane_can_be_made_due(self, harness: Harness) -> None:
        """Handed over or waiting for its next attempt; not while it is attempted, and not what waits behind it."""
        ids = await self._line(harness, 2)
        deliveries, lane = harness.store.deliveries, "c s"
        assert not await deliveries.make_head_due("no such lane")
        claim = await harness.take()
        assert not await deliveries.make_head_due(lane)
        await harness.settle(claim, Handed(500))
        assert await harness.claim() == []
        assert await deliveries.make_head_due(lane)
        claim = await harness.take()
        assert (claim.delivery.id, claim.delivery.handed) == (ids[0], True)
        await harness.settle(claim, Retry("not yet"))
        assert await harness.claim() == []
        assert await deliveries.make_head_due(lane)
        assert (await harness.take()).delivery.id == ids[0]

    async def test_unclaimed_handed_deliveries_do_not_hide_others(self, harness: Harness) -> None:
        """A full page of deliveries that are already ready must not end the search."""
        await harness.contract("many", "handler:many")
        await harness.store.events.append([new_event("t") for _ in range(600)])
        await harness.route()
        claims = await harness.claim(1000)
        await harness.settle_all([(claim, Handed(5)) for claim in claims])
        harness.clock.advance(5)
        total = 0
        for _ in range(4):
            total += await harness.store.deliveries.resume_handed()
        assert total == len(await harness.claim(1000)) == 600

    async def test_cancelling_a_handed_head_continues_its_lane(self, harness: Harness) -> None:
        ids = await self._line(harness, 2)
        await harness.end(Handed(5))
        assert await harness.store.operator.cancel(harness.owner, [ids[0]], "me") == [ids[0]]
        assert await harness.end(Delivered()) == ids[1]
        harness.clock.advance(10)
        assert await harness.store.deliveries.resume_handed() == 0

    async def test_cancelling_in_the_middle_of_a_lane_keeps_its_order(self, harness: Harness) -> None:
        ids = await self._line(harness, 4)
        claim = await harness.take()
        await harness.store.operator.cancel(harness.owner, [ids[1]], "me")
        assert await harness.claim() == []
        await harness.settle(claim, Retry("503"))
        assert await harness.claim() == []
        harness.clock.advance(10)
        assert [await harness.end(Delivered()) for _ in range(3)] == [ids[0], ids[2], ids[3]]

    async def test_order_holds_through_crashes(self, harness: Harness) -> None:
        ids = await self._line(harness, 3)
        done = []
        for _ in ids:
            await harness.take()
            await harness.crash()
            done.append(await harness.end(Delivered()))
        assert done == ids

    async def test_a_wall_clock_that_steps_back_keeps_lane_order(self, harness: Harness) -> None:
        ids = []
        for _ in range(4):
            ids += await self._line(harness, 1)
            harness.clock.step_wall(-3600)
        harness.clock.step_wall(4 * 3600)
        assert [await harness.end(Delivered()) for _ in ids] == ids

    async def test_an_empty_lane_begins_again(self, harness: Harness) -> None:
        for _ in range(3):
            ids = await self._line(harness, 1)
            assert await harness.end(Delivered()) == ids[0]
            harness.clock.advance(1)
            await harness.prune(delivered_s=0)

    async def _line(self, harness: Harness, count: int, stream: str = "s") -> list[int]:
        await harness.contract(ordered=True)
        return [await harness.send(stream=stream) for _ in range(count)]
