"""Claims: only what is due and served, within the room there is, fair to every queue."""

from __future__ import annotations

from collections import Counter

from holdfast.domain.contract import Criterion
from holdfast.domain.delivery import Delivered, Retry
from holdfast.domain.event import new_event
from holdfast.testing.suite.harness import Bench, StoreSuite


class ClaimsSuite(StoreSuite):
    async def test_a_claim_holds_everything_a_deliverer_needs(self, bench: Bench) -> None:
        await bench.contract("c", "https://example.com/x")
        await bench.send("order.placed", {"id": 42}, stream="order:42", properties={"project": "x"})
        claim = await bench.take()
        assert (claim.delivery.address, claim.delivery.contract_id) == ("https://example.com/x", "c")
        assert (claim.delivery.attempts, claim.delivery.generation, claim.delivery.handed) == (0, 1, False)
        assert (claim.event.type, claim.event.payload) == ("order.placed", {"id": 42})
        assert (claim.event.stream, claim.event.seq) == ("order:42", 1)
        assert claim.event.properties == {"project": "x"}
        assert claim.starts == 1

    async def test_what_is_claimed_cannot_be_claimed_again(self, bench: Bench) -> None:
        await bench.contract()
        for _ in range(10):
            await bench.send()
        first, second, third = await bench.claim(4), await bench.claim(4), await bench.claim(4)
        ids = [claim.delivery.id for claim in first + second + third]
        assert len(ids) == len(set(ids)) == 10

    async def test_a_claim_takes_only_kinds_and_addresses_that_are_served(self, bench: Bench) -> None:
        for id, to in (("a", "handler:a"), ("b", "handler:b"), ("w", "https://example.com"), ("s", "session:x")):
            await bench.contract(id, to)
        await bench.send()
        assert await bench.claim(kinds=[]) == []
        assert [claim.delivery.address for claim in await bench.claim(kinds=[], addresses=["handler:b"])] == [
            "handler:b"
        ]
        assert [claim.delivery.contract_id for claim in await bench.claim(kinds=["https"])] == ["w"]
        assert {claim.delivery.contract_id for claim in await bench.claim()} == {"a", "s"}

    async def test_a_claim_respects_its_limit(self, bench: Bench) -> None:
        await self._fill(bench, {"a": 5, "b": 5})
        assert len(await bench.claim(3)) == 3
        assert len(await bench.claim(0)) == 0

    async def test_a_claim_respects_the_room_of_each_queue(self, bench: Bench) -> None:
        await self._fill(bench, {"a": 5, "b": 5, "c": 5})
        queues = {queue.contract_id: queue.id for queue in await bench.store.contracts.queues()}
        claims = await bench.claim(room={queues["a"]: 2, queues["b"]: 0}, room_default=4)
        assert Counter(claim.delivery.contract_id for claim in claims) == {"a": 2, "c": 4}
        assert all(claim.queue == queues[claim.delivery.contract_id] for claim in claims)

    async def test_a_queue_without_room_is_no_reason_to_wake_up(self, bench: Bench) -> None:
        await self._fill(bench, {"a": 1})
        (queue,) = await bench.store.contracts.queues()
        asked = await bench.ask(room={queue.id: 0})
        assert (asked.claims, asked.next_due_ms) == ([], None)

    async def test_one_long_queue_does_not_keep_short_ones_waiting(self, bench: Bench) -> None:
        await self._fill(bench, {"noisy": 1000, **{f"quiet{i}": 1 for i in range(10)}})
        claimed = Counter(claim.delivery.contract_id for claim in await bench.claim(50))
        assert len(claimed) == 11
        assert sum(claimed.values()) == 50

    async def test_queues_take_turns_when_there_are_more_than_fit_into_a_claim(self, bench: Bench) -> None:
        await self._fill(bench, {f"q{i:02}": 3 for i in range(12)})
        after, seen = 0, list[str | None]()
        for _ in range(4):
            asked = await bench.ask(3, after_queue=after)
            seen += [claim.delivery.contract_id for claim in asked.claims]
            after = asked.after_queue
        assert sorted(seen, key=str) == [f"q{i:02}" for i in range(12)]

    async def test_a_thousand_queues_that_are_not_due_hide_no_queue_that_is(self, bench: Bench) -> None:
        """A full page of what cannot be served must not end the search."""
        waiting = 1050
        for i in range(waiting):
            await bench.contract(f"w{i:04}", type_criterion=Criterion(match="early"))
        await bench.emit("early")
        await bench.route()
        claims = await bench.claim(waiting)
        await bench.settle_all([(claim, Retry("503", after_s=600)) for claim in claims])
        due = bench.clock.now_ms() + 600_000
        assert (await bench.ask()).next_due_ms == due
        await bench.contract("z", "handler:z", type_criterion=Criterion(match="late"))
        late = await bench.send("late")
        asked = await bench.ask()
        assert [claim.delivery.id for claim in asked.claims] == [late]
        assert asked.next_due_ms == due

    async def test_unordered_deliveries_are_claimed_oldest_first(self, bench: Bench) -> None:
        await bench.contract()
        ids = []
        for _ in range(6):
            ids.append(await bench.send())
            bench.clock.advance(1)
        claimed = [claim.delivery.id for _ in range(3) for claim in await bench.claim(2)]
        assert claimed == ids

    async def test_an_empty_claim_says_when_the_next_delivery_is_due(self, bench: Bench) -> None:
        await bench.contract("a")
        assert (await bench.ask()).next_due_ms is None
        await bench.send()
        await bench.settle(await bench.take(), Retry("503", after_s=30))
        assert (await bench.ask()).next_due_ms == bench.clock.now_ms() + 30_000
        bench.clock.advance(30)
        assert len(await bench.claim()) == 1

    async def test_starts_count_at_claim_and_attempts_at_settle(self, bench: Bench) -> None:
        await bench.contract()
        id = await bench.send()
        claim = await bench.take()
        assert (await bench.row(id)).starts == claim.starts == 1
        assert (await bench.row(id)).attempts == 0
        await bench.settle(claim, Retry("503"))
        row = await bench.row(id)
        assert (row.starts, row.attempts) == (0, 1)

    async def test_a_crash_counts_a_start_but_burns_no_attempt(self, bench: Bench) -> None:
        await bench.contract()
        id = await bench.send()
        await bench.take()
        await bench.crash()
        claim = await bench.take()
        assert (claim.delivery.id, claim.starts, claim.delivery.attempts) == (id, 2, 0)

    async def test_suspects_are_claimed_one_at_a_time(self, bench: Bench) -> None:
        await self._fill(bench, {"a": 3, "b": 3})
        for _ in range(2):
            assert len(await bench.claim()) == 6
            await bench.crash()
        assert [len(await bench.claim()) for _ in range(7)] == [1, 1, 1, 1, 1, 1, 0]

    async def test_a_suspect_is_left_alone_while_another_is_in_somebodys_hands(self, bench: Bench) -> None:
        await self._fill(bench, {"a": 1})
        for _ in range(2):
            await bench.take()
            await bench.crash()
        fresh = await bench.send("a")
        assert [claim.delivery.id for claim in await bench.claim(suspects=False)] == [fresh]
        assert (await bench.take()).starts == 3

    async def test_a_suspect_counts_against_limit_and_room(self, bench: Bench) -> None:
        await self._fill(bench, {"a": 3})
        for _ in range(2):
            await bench.claim()
            await bench.crash()
        await bench.send("a")
        (queue,) = await bench.store.contracts.queues()
        assert await bench.claim(limit=0) == []
        assert len(await bench.claim(limit=1)) == 1
        assert len(await bench.claim(room={queue.id: 1})) == 1

    async def test_a_settled_suspect_is_a_suspect_no_more(self, bench: Bench) -> None:
        await self._fill(bench, {"a": 1})
        for _ in range(3):
            claim = await bench.take()
            await bench.crash()
        claim = await bench.take()
        assert claim.starts == 4
        await bench.settle(claim, Retry("503"))
        bench.clock.advance(10)
        assert (await bench.take(suspects=False)).starts == 1

    async def test_a_delivered_delivery_is_never_claimed_again(self, bench: Bench) -> None:
        await bench.contract()
        await bench.send()
        await bench.end(Delivered())
        bench.clock.advance(1e6)
        await bench.crash()
        assert await bench.claim() == []

    async def _fill(self, bench: Bench, counts: dict[str, int]) -> None:
        for id in counts:
            await bench.contract(id, f"handler:{id}", type_criterion=Criterion(match=id))
        await bench.store.events.append([new_event(id) for id, count in counts.items() for _ in range(count)])
        await bench.route()
