"""Lanes: message n+1 is not attempted before n has its end."""

from __future__ import annotations

from holdfast.domain.delivery import Dead, Delivered, Dropped, Handed, Outcome, Retry
from holdfast.domain.event import new_event
from holdfast.domain.states import Reason
from holdfast.testing.suite.harness import Bench, StoreSuite


class LanesSuite(StoreSuite):
    async def test_only_the_head_of_a_lane_is_claimable(self, bench: Bench) -> None:
        ids = await self._line(bench, 3)
        assert [claim.delivery.id for claim in await bench.claim()] == ids[:1]
        assert await bench.claim() == []
        assert [(await bench.row(id)).waits_for for id in ids] == [None, "head of lane", "head of lane"]

    async def test_a_lane_is_served_in_the_order_of_its_stream(self, bench: Bench) -> None:
        ids = await self._line(bench, 5)
        assert [await bench.end(Delivered()) for _ in ids] == ids
        assert await bench.claim() == []

    async def test_each_stream_has_its_own_lane(self, bench: Bench) -> None:
        await bench.contract(ordered=True)
        for stream in ("a", "b", "a", "b"):
            await bench.emit(stream=stream)
        await bench.route()
        assert [(claim.event.stream, claim.event.seq) for claim in await bench.claim()] == [("a", 1), ("b", 1)]

    async def test_each_contract_has_its_own_lane(self, bench: Bench) -> None:
        await bench.contract("one", ordered=True)
        await bench.contract("two", ordered=True)
        await bench.emit(stream="s")
        await bench.route()
        assert len(await bench.claim()) == 2

    async def test_an_event_without_a_stream_waits_for_nobody(self, bench: Bench) -> None:
        await bench.contract(ordered=True)
        await bench.send()
        await bench.send()
        assert len(await bench.claim()) == 2

    async def test_a_session_is_one_lane_whatever_stream_a_message_came_from(self, bench: Bench) -> None:
        await bench.contract("c", "session:x")
        one = (await bench.emit(stream="a")).id
        two = (await bench.emit(to="session:x", source="hook")).id
        three = (await bench.emit(stream="b")).id
        await bench.route()
        ends = []
        while claims := await bench.claim():
            assert len(claims) == 1
            ends.append(claims[0].event.id)
            await bench.settle(claims[0], Delivered())
        assert ends == [one, two, three]

    async def test_a_failing_head_blocks_its_lane_until_its_end(self, bench: Bench) -> None:
        ids = await self._line(bench, 2)
        for _ in range(5):
            assert await bench.end(Retry("503")) == ids[0]
            assert await bench.claim() == []
            bench.clock.advance(100)
        await bench.end(Dead(Reason.REJECTED, "no"))
        assert (await bench.take()).delivery.id == ids[1]

    async def test_a_failing_head_does_not_block_other_lanes(self, bench: Bench) -> None:
        await self._line(bench, 2, "a")
        await self._line(bench, 2, "b")
        head, _ = await bench.claim()
        await bench.settle(head, Retry("503"))
        assert [claim.event.stream for claim in await bench.claim()] == []
        bench.clock.advance(2)
        assert [claim.event.stream for claim in await bench.claim()] == ["a"]

    async def test_a_retry_keeps_its_position(self, bench: Bench) -> None:
        ids = await self._line(bench, 1)
        await bench.end(Retry("503"))
        ids += await self._line(bench, 2)
        bench.clock.advance(2)
        assert [await bench.end(Delivered()) for _ in ids] == ids

    async def test_an_ordered_lane_goes_on_after_any_end(self, bench: Bench) -> None:
        ends: list[Outcome] = [Delivered(), Dead(Reason.REJECTED, "no"), Dropped(Reason.EXPIRED), Delivered()]
        ids = await self._line(bench, len(ends))
        assert [await bench.end(outcome) for outcome in ends] == ids
        assert [(await bench.row(id)).state for id in ids] == ["delivered", "dead", "dropped", "delivered"]

    async def test_a_lane_goes_on_after_its_head_is_exhausted(self, bench: Bench) -> None:
        ids = await self._line(bench, 2)
        for _ in range(10):
            bench.clock.advance(100)
            assert await bench.end(Retry("503")) == ids[0]
        row = await bench.row(ids[0])
        assert (row.state, row.reason, row.attempts, row.last_error) == ("dead", "exhausted", 10, "503")
        assert await bench.end(Delivered()) == ids[1]

    async def test_a_handed_head_blocks_its_lane_without_a_lease(self, bench: Bench) -> None:
        ids = await self._line(bench, 2)
        await bench.end(Handed(5))
        assert await bench.claim() == []
        row = await bench.row(ids[0])
        assert (row.state, row.leased, row.waits_for) == ("pending", False, "confirmation")
        assert await bench.store.deliveries.resume_handed() == 0

    async def test_handed_deliveries_come_back_at_their_time_and_stay_the_head(self, bench: Bench) -> None:
        ids = await self._line(bench, 2)
        await bench.end(Handed(5))
        bench.clock.advance(5)
        assert await bench.store.deliveries.resume_handed() == 1
        assert await bench.store.deliveries.resume_handed() == 0
        claim = await bench.take()
        assert (claim.delivery.id, claim.delivery.handed, claim.delivery.attempts) == (ids[0], True, 1)
        await bench.settle(claim, Delivered())
        assert (await bench.take()).delivery.id == ids[1]

    async def test_handed_deliveries_that_nobody_claims_hide_no_others(self, bench: Bench) -> None:
        """A full page of what is ready already must not end the search."""
        await bench.contract("many", "handler:many")
        await bench.store.events.append([new_event("t") for _ in range(600)])
        await bench.route()
        claims = await bench.claim(1000)
        await bench.settle_all([(claim, Handed(5)) for claim in claims])
        bench.clock.advance(5)
        total = 0
        for _ in range(4):
            total += await bench.store.deliveries.resume_handed()
        assert total == len(await bench.claim(1000)) == 600

    async def test_cancelling_a_handed_head_lets_the_lane_go_on(self, bench: Bench) -> None:
        ids = await self._line(bench, 2)
        await bench.end(Handed(5))
        assert await bench.store.operator.cancel(bench.owner, [ids[0]], "me") == [ids[0]]
        assert await bench.end(Delivered()) == ids[1]
        bench.clock.advance(10)
        assert await bench.store.deliveries.resume_handed() == 0

    async def test_cancelling_one_in_the_middle_does_not_let_anyone_overtake(self, bench: Bench) -> None:
        ids = await self._line(bench, 4)
        claim = await bench.take()
        await bench.store.operator.cancel(bench.owner, [ids[1]], "me")
        assert await bench.claim() == []
        await bench.settle(claim, Retry("503"))
        assert await bench.claim() == []
        bench.clock.advance(10)
        assert [await bench.end(Delivered()) for _ in range(3)] == [ids[0], ids[2], ids[3]]

    async def test_order_holds_through_crashes(self, bench: Bench) -> None:
        ids = await self._line(bench, 3)
        done = []
        for _ in ids:
            await bench.take()
            await bench.crash()
            done.append(await bench.end(Delivered()))
        assert done == ids

    async def test_a_wall_clock_that_steps_back_lets_nobody_overtake(self, bench: Bench) -> None:
        ids = []
        for _ in range(4):
            ids += await self._line(bench, 1)
            bench.clock.step_wall(-3600)
        bench.clock.step_wall(4 * 3600)
        assert [await bench.end(Delivered()) for _ in ids] == ids

    async def test_an_empty_lane_begins_again(self, bench: Bench) -> None:
        for _ in range(3):
            ids = await self._line(bench, 1)
            assert await bench.end(Delivered()) == ids[0]
            bench.clock.advance(1)
            await bench.prune(delivered_s=0)

    async def _line(self, bench: Bench, count: int, stream: str = "s") -> list[int]:
        await bench.contract(ordered=True)
        return [await bench.send(stream=stream) for _ in range(count)]
