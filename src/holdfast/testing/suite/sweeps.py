"""Sweeps: what ends without being carried: contracts that went, handlers that nobody serves."""

from __future__ import annotations

from holdfast.domain.delivery import Delivered, Handed, Retry
from holdfast.testing.suite.harness import Harness, StoreSuite

HOUR_S, HOUR_MS = 3600.0, 3_600_000


class SweepsSuite(StoreSuite):
    async def test_what_waits_for_a_removed_contract_is_dropped(self, harness: Harness) -> None:
        await harness.contract("gone")
        await harness.contract("lanes", "handler:l", ordered=True)
        await harness.contract("kept", "handler:k")
        for i in range(12):
            await harness.emit(stream=f"s{i % 2}")
        await harness.route()
        assert await harness.store.deliveries.drop_removed(harness.owner) == 0
        await harness.store.contracts.remove("gone")
        await harness.store.contracts.remove("lanes")
        assert await self._drop(harness) == 24
        ends = {(row.contract_id, row.state, row.reason) for row in await harness.rows()}
        assert ends == {
            ("gone", "dropped", "contract_removed"),
            ("lanes", "dropped", "contract_removed"),
            ("kept", "pending", None),
        }

    async def test_a_removed_contract_is_served_no_more_even_before_the_sweep(self, harness: Harness) -> None:
        await harness.contract()
        await harness.send()
        await harness.store.contracts.remove("c")
        assert await harness.claim() == []

    async def test_what_is_in_somebodys_hands_when_its_contract_goes_may_still_end_well(self, harness: Harness) -> None:
        await harness.contract()
        delivered, retried = await harness.send(), await harness.send()
        first, second = await harness.claim()
        await harness.store.contracts.remove("c")
        assert await self._drop(harness) == 0
        assert await harness.settle(first, Delivered())
        assert await harness.settle(second, Retry("503"))
        assert await self._drop(harness) == 1
        assert (await harness.row(delivered)).state == "delivered"
        assert (await harness.row(retried)).reason == "contract_removed"

    async def test_what_was_handed_over_is_dropped_when_its_time_comes(self, harness: Harness) -> None:
        await harness.contract("c", "session:x")
        ids = [await harness.send(), await harness.send()]
        await harness.end(Handed(5))
        await harness.store.contracts.remove("c")
        harness.clock.advance(5)
        await harness.store.deliveries.resume_handed()
        assert await self._drop(harness) == 2
        assert {(await harness.row(id)).reason for id in ids} == {"contract_removed"}

    async def test_a_removed_contract_frees_the_lane_it_shared(self, harness: Harness) -> None:
        await harness.contract("gone", "session:x")
        await harness.contract("kept", "session:x")
        await harness.emit()
        await harness.route()
        await harness.store.contracts.remove("gone")
        await self._drop(harness)
        assert (await harness.take()).delivery.contract_id == "kept"

    async def test_a_disabled_contract_parks_what_waits_and_enabling_resumes_it(self, harness: Harness) -> None:
        await harness.contract("c", ordered=True)
        ids = [await harness.send(stream="s") for _ in range(2)]
        await harness.contract("c", ordered=True, active=False)
        assert (await harness.ask()).claims == []
        assert (await harness.ask()).next_due_ms is None
        assert await self._drop(harness) == 0
        assert {(await harness.row(id)).waits_for for id in ids} == {"contract disabled"}
        await harness.contract("c", ordered=True)
        assert [await harness.end(Delivered()) for _ in ids] == ids

    async def test_what_nobody_serves_is_dead_after_the_grace_time(self, harness: Harness) -> None:
        await harness.contract("c", "handler:nobody")
        id = await harness.send()
        assert await self._bury(harness) == 0
        harness.clock.advance(HOUR_S - 1)
        assert await self._bury(harness) == 0
        harness.clock.advance(1)
        assert await self._bury(harness) == 1
        row = await harness.row(id)
        assert (row.state, row.reason) == ("dead", "no_handler")

    async def test_a_served_handler_buries_nothing_however_slow_it_is(self, harness: Harness) -> None:
        await harness.contract("c", "handler:slow")
        await harness.send()
        for _ in range(5):
            harness.clock.advance(HOUR_S - 1)
            await harness.store.deliveries.serve(["handler:slow"])
            assert await self._bury(harness) == 0
        harness.clock.advance(HOUR_S)
        assert await self._bury(harness) == 1

    async def test_nothing_is_buried_before_the_daemon_has_run_for_the_grace_time(self, harness: Harness) -> None:
        await harness.contract("c", "handler:nobody")
        await harness.send()
        harness.clock.advance(10 * HOUR_S)
        now = harness.clock.now_ms()
        assert await harness.store.deliveries.bury_unserved(harness.owner, HOUR_MS, since_ms=now - HOUR_MS + 1) == 0
        assert await harness.store.deliveries.bury_unserved(harness.owner, HOUR_MS, since_ms=now - HOUR_MS) == 1

    async def test_a_whole_lane_that_nobody_serves_is_buried_together(self, harness: Harness) -> None:
        await harness.contract("c", "handler:nobody", ordered=True)
        ids = [await harness.send(stream="s") for _ in range(3)]
        harness.clock.advance(HOUR_S)
        late = await harness.send(stream="s")
        while await self._bury(harness):
            pass
        assert {(await harness.row(id)).reason for id in ids} == {"no_handler"}
        assert (await harness.row(late)).state == "pending"

    async def test_webhooks_sessions_and_what_is_paused_or_parked_are_never_buried(self, harness: Harness) -> None:
        await harness.contract("w", "https://example.com")
        await harness.contract("s", "session:x")
        await harness.contract("p", "handler:paused")
        await harness.contract("d", "handler:parked")
        await harness.emit()
        await harness.route()
        await harness.store.operator.pause("contract", "p")
        await harness.contract("d", "handler:parked", active=False)
        harness.clock.advance(10 * HOUR_S)
        assert await self._bury(harness) == 0

    async def test_a_buried_delivery_can_be_reprocessed_and_gets_its_grace_again(self, harness: Harness) -> None:
        await harness.contract("c", "handler:nobody")
        id = await harness.send()
        harness.clock.advance(HOUR_S)
        await self._bury(harness)
        await harness.store.operator.reprocess(harness.owner, [id], frozenset({"dead"}), "me")
        assert await self._bury(harness) == 0
        await harness.store.deliveries.serve(["handler:nobody"])
        assert await harness.end(Delivered()) == id

    async def _drop(self, harness: Harness) -> int:
        total = 0
        while dropped := await harness.store.deliveries.drop_removed(harness.owner):
            total += dropped
        return total

    async def _bury(self, harness: Harness) -> int:
        return await harness.store.deliveries.bury_unserved(harness.owner, HOUR_MS, since_ms=0)
