"""Claims: only due deliveries of served addresses, within the limits, fair to every queue."""

from __future__ import annotations

from collections import Counter

from holdfast.domain.contract import Criterion
from holdfast.domain.delivery import Delivered, Retry
from holdfast.domain.event import new_event
from holdfast.testing.suite.harness import Harness, StoreSuite


class ClaimsSuite(StoreSuite):
    async def test_a_claim_holds_everything_a_deliverer_needs(self, harness: Harness) -> None:
        await harness.contract("c", "https://example.com/x")
        await harness.send("order.placed", {"id": 42}, stream="order:42", properties={"project": "x"})
        claim = await harness.take()
        assert (claim.delivery.address, claim.delivery.contract_id) == ("https://example.com/x", "c")
        assert (claim.delivery.attempts, claim.delivery.generation, claim.delivery.handed) == (0, 1, False)
        assert (claim.event.type, claim.event.payload) == ("order.placed", {"id": 42})
        assert (claim.event.stream, claim.event.seq) == ("order:42", 1)
        assert claim.event.properties == {"project": "x"}
        assert claim.starts == 1

    async def test_a_claimed_delivery_cannot_be_claimed_again(self, harness: Harness) -> None:
        await harness.contract()
        for _ in range(10):
            await harness.send()
        first, second, third = await harness.claim(4), await harness.claim(4), await harness.claim(4)
        ids = [claim.delivery.id for claim in first + second + third]
        assert len(ids) == len(set(ids)) == 10

    async def test_a_claim_takes_only_kinds_and_addresses_that_are_served(self, harness: Harness) -> None:
        for id, to in (("a", "handler:a"), ("b", "handler:b"), ("w", "https://example.com"), ("s", "session:x")):
            await harness.contract(id, to)
        await harness.send()
        assert await harness.claim(kinds=[]) == []
        assert [claim.delivery.address for claim in await harness.claim(kinds=[], addresses=["handler:b"])] == [
            "handler:b"
        ]
        assert [claim.delivery.contract_id for claim in await harness.claim(kinds=["https"])] == ["w"]
        assert {claim.delivery.contract_id for claim in await harness.claim()} == {"a", "s"}

    async def test_a_claim_respects_its_limit(self, harness: Harness) -> None:
        await self._fill(harness, {"a": 5, "b": 5})
        assert len(await harness.claim(3)) == 3
        assert len(await harness.claim(0)) == 0

    async def test_a_claim_respects_the_room_of_each_queue(self, harness: Harness) -> None:
        await self._fill(harness, {"a": 5, "b": 5, "c": 5})
        queues = {queue.contract_id: queue.id for queue in await harness.store.contracts.queues()}
        claims = await harness.claim(capacity={queues["a"]: 2, queues["b"]: 0}, capacity_default=4)
        assert Counter(claim.delivery.contract_id for claim in claims) == {"a": 2, "c": 4}
        assert all(claim.queue == queues[claim.delivery.contract_id] for claim in claims)

    async def test_a_queue_without_room_has_no_next_due_time(self, harness: Harness) -> None:
        await self._fill(harness, {"a": 1})
        (queue,) = await harness.store.contracts.queues()
        asked = await harness.ask(capacity={queue.id: 0})
        assert (asked.claims, asked.next_due_ms) == ([], None)

    async def test_one_long_queue_does_not_keep_short_ones_waiting(self, harness: Harness) -> None:
        await self._fill(harness, {"noisy": 1000, **{f"quiet{i}": 1 for i in range(10)}})
        claimed = Counter(claim.delivery.contract_id for claim in await harness.claim(50))
        assert len(claimed) == 11
        assert sum(claimed.values()) == 50

    async def test_queues_take_turns_when_there_are_more_than_fit_into_a_claim(self, harness: Harness) -> None:
        await self._fill(harness, {f"q{i:02}": 3 for i in range(12)})
        after, seen = 0, list[str | None]()
        for _ in range(4):
            asked = await harness.ask(3, after_queue=after)
            seen += [claim.delivery.contract_id for claim in asked.claims]
            after = asked.after_queue
        assert sorted(seen, key=str) == [f"q{i:02}" for i in range(12)]

    async def test_a_thousand_queues_that_are_not_due_hide_no_queue_that_is(self, harness: Harness) -> None:
        """A full page of queues that are not due must not end the search."""
        waiting = 1050
        for i in range(waiting):
            await harness.contract(f"w{i:04}", type_criterion=Criterion(match="early"))
        await harness.emit("early")
        await harness.route()
        claims = await harness.claim(waiting)
        await harness.settle_all([(claim, Retry("503", after_s=600)) for claim in claims])
        due = harness.clock.now_ms() + 600_000
        assert (await harness.ask()).next_due_ms == due
        await harness.contract("z", "handler:z", type_criterion=Criterion(match="late"))
        late = await harness.send("late")
        asked = await harness.ask()
        assert [claim.delivery.id for claim in asked.claims] == [late]
        assert asked.next_due_ms == due

    async def test_unordered_deliveries_are_claimed_oldest_first(self, harness: Harness) -> None:
        await harness.contract()
        ids = []
        for _ in range(6):
            ids.append(await harness.send())
            harness.clock.advance(1)
        claimed = [claim.delivery.id for _ in range(3) for claim in await harness.claim(2)]
        assert claimed == ids

    async def test_an_empty_claim_says_when_the_next_delivery_is_due(self, harness: Harness) -> None:
        await harness.contract("a")
        assert (await harness.ask()).next_due_ms is None
        await harness.send()
        await harness.settle(await harness.take(), Retry("503", after_s=30))
        assert (await harness.ask()).next_due_ms == harness.clock.now_ms() + 30_000
        harness.clock.advance(30)
        assert len(await harness.claim()) == 1

    async def test_starts_count_at_claim_and_attempts_at_settle(self, harness: Harness) -> None:
        await harness.contract()
        id = await harness.send()
        claim = await harness.take()
        assert (await harness.row(id)).starts == claim.starts == 1
        assert (await harness.row(id)).attempts == 0
        await harness.settle(claim, Retry("503"))
        row = await harness.row(id)
        assert (row.starts, row.attempts) == (0, 1)

    async def test_a_crash_counts_a_start_but_burns_no_attempt(self, harness: Harness) -> None:
        await harness.contract()
        id = await harness.send()
        await harness.take()
        await harness.crash()
        claim = await harness.take()
        assert (claim.delivery.id, claim.starts, claim.delivery.attempts) == (id, 2, 0)

    async def test_suspects_are_claimed_one_at_a_time(self, harness: Harness) -> None:
        await self._fill(harness, {"a": 3, "b": 3})
        for _ in range(2):
            assert len(await harness.claim()) == 6
            await harness.crash()
        assert [len(await harness.claim()) for _ in range(7)] == [1, 1, 1, 1, 1, 1, 0]

    async def test_no_suspect_is_claimed_while_another_is_leased(self, harness: Harness) -> None:
        await self._fill(harness, {"a": 1})
        for _ in range(2):
            await harness.take()
            await harness.crash()
        fresh = await harness.send("a")
        assert [claim.delivery.id for claim in await harness.claim(suspects=False)] == [fresh]
        assert (await harness.take()).starts == 3

    async def test_a_suspect_counts_against_limit_and_room(self, harness: Harness) -> None:
        await self._fill(harness, {"a": 3})
        for _ in range(2):
            await harness.claim()
            await harness.crash()
        await harness.send("a")
        (queue,) = await harness.store.contracts.queues()
        assert await harness.claim(limit=0) == []
        assert len(await harness.claim(limit=1)) == 1
        assert len(await harness.claim(capacity={queue.id: 1})) == 1

    async def test_a_settled_suspect_is_no_longer_a_suspect(self, harness: Harness) -> None:
        await self._fill(harness, {"a": 1})
        for _ in range(3):
            claim = await harness.take()
            await harness.crash()
        claim = await harness.take()
        assert claim.starts == 4
        await harness.settle(claim, Retry("503"))
        harness.clock.advance(10)
        assert (await harness.take(suspects=False)).starts == 1

    async def test_a_delivered_delivery_is_never_claimed_again(self, harness: Harness) -> None:
        await harness.contract()
        await harness.send()
        await harness.end(Delivered())
        harness.clock.advance(1e6)
        await harness.crash()
        assert await harness.claim() == []

    async def _fill(self, harness: Harness, counts: dict[str, int]) -> None:
        for id in counts:
            await harness.contract(id, f"handler:{id}", type_criterion=Criterion(match=id))
        await harness.store.events.append([new_event(id) for id, count in counts.items() for _ in range(count)])
        await harness.route()
