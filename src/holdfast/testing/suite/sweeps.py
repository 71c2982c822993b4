"""Sweeps: deliveries of removed contracts are dropped, those of unserved handlers die."""

from __future__ import annotations

from holdfast.domain.delivery import Delivered, Handed, Retry
from holdfast.testing.suite.harness import Harness, StoreSuite

HOUR_S, HOUR_MS = 3600.0, 3_600_000


class SweepsSuite(StoreSuite):
    async def test_pending_deliveries_of_a_removed_contract_are_dropped(self, harness: Harness) -> None:
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

    async def test_a_removed_contract_is_not_served_even_before_the_sweep(self, harness: Harness) -> None:
        await harness.contract()
        await harness.send()
        await harness.store.contracts.remove("c")
        assert await harness.claim() == []

    async def test_a_leased_delivery_of_a_removed_contract_may_still_succeed(self, harness: Harness) -> None:
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

    async def test_a_handed_delivery_of_a_removed_contract_is_dropped_when_it_comes_back(
        self, harness: Harness
    ) -> None:
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

    async def test_a_disabled_contract_parks_its_deliveries_and_enabling_resumes_them(self, harness: Harness) -> None:
        await harness.contract("c", ordered=True)
        ids = [await harness.send(stream="s") for _ in range(2)]
        await harness.contract("c", ordered=True, active=False)
        assert (await harness.ask()).claims == []
        assert (await harness.ask()).next_due_ms is None
        assert await self._drop(harness) == 0
        assert {(await harness.row(id)).waits_for for id in ids} == {"contract disabled"}
        await harness.contract("c", ordered=True)
        assert [await harness.end(Delivered()) for _ in ids] == ids

    async def test_a_delivery_without_a_handler_is_dead_after_the_grace_time(self, harness: Harness) -> None:
        await harness.contract("c", "handler:nobody")
        id = await harness.send()
        assert await self._dead_letter(harness) == 0
        harness.clock.advance(HOUR_S - 1)
        assert await self._dead_letter(harness) == 0
        harness.clock.advance(1)
        assert await self._dead_letter(harness) == 1
        row = await harness.row(id)
        assert (row.state, row.reason) == ("dead", "no_handler")

    async def test_deliveries_of_a_served_handler_never_die_of_no_handler(self, harness: Harness) -> None:
        await harness.contract("c", "handler:slow")
        await harness.send()
        for _ in range(5):
            harness.clock.advance(HOUR_S - 1)
            await harness.store.deliveries.record_served(["handler:slow"])
            assert await self._dead_letter(harness) == 0
        harness.clock.advance(HOUR_S)
        assert await self._dead_letter(harness) == 1

    async def test_no_delivery_dies_before_the_daemon_has_run_for_the_grace_time(self, harness: Harness) -> None:
        await harness.contract("c", "handler:nobody")
        await harness.send()
        harness.clock.advance(10 * HOUR_S)
        now = harness.clock.now_ms()
        assert (
            await harness.store.deliveries.dead_letter_unserved(harness.owner, HOUR_MS, since_ms=now - HOUR_MS + 1) == 0
        )
        assert await harness.store.deliveries.dead_letter_unserved(harness.owner, HOUR_MS, since_ms=now - HOUR_MS) == 1

    async def test_all_deliveries_of_an_unserved_lane_die_together(self, harness: Harness) -> None:
        await harness.contract("c", "handler:nobody", ordered=True)
        ids = [await harness.send(stream="s") for _ in range(3)]
        harness.clock.advance(HOUR_S)
        late = await harness.send(stream="s")
        while await self._dead_letter(harness):
            pass
        assert {(await harness.row(id)).reason for id in ids} == {"no_handler"}
        assert (await harness.row(late)).state == "pending"

    async def test_webhooks_sessions_and_paused_or_parked_deliveries_never_die_of_no_handler(
        self, harness: Harness
    ) -> None:
        await harness.contract("w", "https://example.com")
        await harness.contract("s", "session:x")
        await harness.contract("p", "handler:paused")
        await harness.contract("d", "handler:parked")
        await harness.emit()
        await harness.route()
        await harness.store.operator.pause("contract", "p")
        await harness.contract("d", "handler:parked", active=False)
        harness.clock.advance(10 * HOUR_S)
        assert await self._dead_letter(harness) == 0

    async def test_a_delivery_dead_of_no_handler_can_be_reprocessed_with_a_new_grace_time(
        self, harness: Harness
    ) -> None:
        await harness.contract("c", "handler:nobody")
        id = await harness.send()
        harness.clock.advance(HOUR_S)
        await self._dead_letter(harness)
        await harness.store.operator.reprocess(harness.owner, [id], frozenset({"dead"}), "me")
        assert await self._dead_letter(harness) == 0
        await harness.store.deliveries.record_served(["handler:nobody"])
        assert await harness.end(Delivered()) == id

    async def _drop(self, harness: Harness) -> int:
        total = 0
        while dropped := await harness.store.deliveries.drop_removed(harness.owner):
            total += dropped
        return total

    async def _dead_letter(self, harness: Harness) -> int:
        return await harness.store.deliveries.dead_letter_unserved(harness.owner, HOUR_MS, since_ms=0)
