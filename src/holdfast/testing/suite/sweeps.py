"""Sweeps: what ends without being carried: contracts that went, handlers that nobody serves."""

from __future__ import annotations

from holdfast.domain.delivery import Delivered, Handed, Retry
from holdfast.testing.suite.harness import Bench, StoreSuite

HOUR_S, HOUR_MS = 3600.0, 3_600_000


class SweepsSuite(StoreSuite):
    async def test_what_waits_for_a_removed_contract_is_dropped(self, bench: Bench) -> None:
        await bench.contract("gone")
        await bench.contract("lanes", "handler:l", ordered=True)
        await bench.contract("kept", "handler:k")
        for i in range(12):
            await bench.emit(stream=f"s{i % 2}")
        await bench.route()
        assert await bench.store.deliveries.drop_removed(bench.owner) == 0
        await bench.store.contracts.remove("gone")
        await bench.store.contracts.remove("lanes")
        assert await self._drop(bench) == 24
        ends = {(row.contract_id, row.state, row.reason) for row in await bench.rows()}
        assert ends == {
            ("gone", "dropped", "contract_removed"),
            ("lanes", "dropped", "contract_removed"),
            ("kept", "pending", None),
        }

    async def test_a_removed_contract_is_served_no_more_even_before_the_sweep(self, bench: Bench) -> None:
        await bench.contract()
        await bench.send()
        await bench.store.contracts.remove("c")
        assert await bench.claim() == []

    async def test_what_is_in_somebodys_hands_when_its_contract_goes_may_still_end_well(self, bench: Bench) -> None:
        await bench.contract()
        delivered, retried = await bench.send(), await bench.send()
        first, second = await bench.claim()
        await bench.store.contracts.remove("c")
        assert await self._drop(bench) == 0
        assert await bench.settle(first, Delivered())
        assert await bench.settle(second, Retry("503"))
        assert await self._drop(bench) == 1
        assert (await bench.row(delivered)).state == "delivered"
        assert (await bench.row(retried)).reason == "contract_removed"

    async def test_what_was_handed_over_is_dropped_when_its_time_comes(self, bench: Bench) -> None:
        await bench.contract("c", "session:x")
        ids = [await bench.send(), await bench.send()]
        await bench.end(Handed(5))
        await bench.store.contracts.remove("c")
        bench.clock.advance(5)
        await bench.store.deliveries.resume_handed()
        assert await self._drop(bench) == 2
        assert {(await bench.row(id)).reason for id in ids} == {"contract_removed"}

    async def test_a_removed_contract_frees_the_lane_it_shared(self, bench: Bench) -> None:
        await bench.contract("gone", "session:x")
        await bench.contract("kept", "session:x")
        await bench.emit()
        await bench.route()
        await bench.store.contracts.remove("gone")
        await self._drop(bench)
        assert (await bench.take()).delivery.contract_id == "kept"

    async def test_a_disabled_contract_parks_what_waits_and_enabling_resumes_it(self, bench: Bench) -> None:
        await bench.contract("c", ordered=True)
        ids = [await bench.send(stream="s") for _ in range(2)]
        await bench.contract("c", ordered=True, active=False)
        assert (await bench.ask()).claims == []
        assert (await bench.ask()).next_due_ms is None
        assert await self._drop(bench) == 0
        assert {(await bench.row(id)).waits_for for id in ids} == {"contract disabled"}
        await bench.contract("c", ordered=True)
        assert [await bench.end(Delivered()) for _ in ids] == ids

    async def test_what_nobody_serves_is_dead_after_the_grace_time(self, bench: Bench) -> None:
        await bench.contract("c", "handler:nobody")
        id = await bench.send()
        assert await self._bury(bench) == 0
        bench.clock.advance(HOUR_S - 1)
        assert await self._bury(bench) == 0
        bench.clock.advance(1)
        assert await self._bury(bench) == 1
        row = await bench.row(id)
        assert (row.state, row.reason) == ("dead", "no_handler")

    async def test_a_served_handler_buries_nothing_however_slow_it_is(self, bench: Bench) -> None:
        await bench.contract("c", "handler:slow")
        await bench.send()
        for _ in range(5):
            bench.clock.advance(HOUR_S - 1)
            await bench.store.deliveries.serve(["handler:slow"])
            assert await self._bury(bench) == 0
        bench.clock.advance(HOUR_S)
        assert await self._bury(bench) == 1

    async def test_nothing_is_buried_before_the_daemon_has_run_for_the_grace_time(self, bench: Bench) -> None:
        await bench.contract("c", "handler:nobody")
        await bench.send()
        bench.clock.advance(10 * HOUR_S)
        now = bench.clock.now_ms()
        assert await bench.store.deliveries.bury_unserved(bench.owner, HOUR_MS, since_ms=now - HOUR_MS + 1) == 0
        assert await bench.store.deliveries.bury_unserved(bench.owner, HOUR_MS, since_ms=now - HOUR_MS) == 1

    async def test_a_whole_lane_that_nobody_serves_is_buried_together(self, bench: Bench) -> None:
        await bench.contract("c", "handler:nobody", ordered=True)
        ids = [await bench.send(stream="s") for _ in range(3)]
        bench.clock.advance(HOUR_S)
        late = await bench.send(stream="s")
        while await self._bury(bench):
            pass
        assert {(await bench.row(id)).reason for id in ids} == {"no_handler"}
        assert (await bench.row(late)).state == "pending"

    async def test_webhooks_sessions_and_what_is_paused_or_parked_are_never_buried(self, bench: Bench) -> None:
        await bench.contract("w", "https://example.com")
        await bench.contract("s", "session:x")
        await bench.contract("p", "handler:paused")
        await bench.contract("d", "handler:parked")
        await bench.emit()
        await bench.route()
        await bench.store.operator.pause("contract", "p")
        await bench.contract("d", "handler:parked", active=False)
        bench.clock.advance(10 * HOUR_S)
        assert await self._bury(bench) == 0

    async def test_a_buried_delivery_can_be_reprocessed_and_gets_its_grace_again(self, bench: Bench) -> None:
        await bench.contract("c", "handler:nobody")
        id = await bench.send()
        bench.clock.advance(HOUR_S)
        await self._bury(bench)
        await bench.store.operator.reprocess(bench.owner, [id], frozenset({"dead"}), "me")
        assert await self._bury(bench) == 0
        await bench.store.deliveries.serve(["handler:nobody"])
        assert await bench.end(Delivered()) == id

    async def _drop(self, bench: Bench) -> int:
        total = 0
        while dropped := await bench.store.deliveries.drop_removed(bench.owner):
            total += dropped
        return total

    async def _bury(self, bench: Bench) -> int:
        return await bench.store.deliveries.bury_unserved(bench.owner, HOUR_MS, since_ms=0)
