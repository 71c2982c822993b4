"""Leases: one holder at a time, fenced by a token, reclaimed from dead holders."""

from __future__ import annotations

from holdfast.domain.contract import Criterion
from holdfast.domain.delivery import Dead, Delivered, Dropped, Handed, Retry
from holdfast.domain.event import new_event
from holdfast.domain.states import Reason
from holdfast.store.roles.store import Feature
from holdfast.testing.suite.harness import Harness, StoreSuite


class LeasesSuite(StoreSuite):
    async def test_a_live_lease_is_not_reclaimable(self, harness: Harness) -> None:
        await harness.contract()
        await harness.send()
        claim = await harness.take(lease_s=30)
        harness.clock.advance(29.9)
        assert await harness.store.deliveries.reclaim() == 0
        assert await harness.claim() == []
        assert await harness.settle(claim, Delivered())

    async def test_a_lease_that_ended_is_reclaimable(self, harness: Harness) -> None:
        await harness.contract()
        id = await harness.send()
        await harness.take(lease_s=30)
        harness.clock.advance(30.001)
        assert await harness.store.deliveries.reclaim() == 1
        assert await harness.store.deliveries.reclaim() == 0
        assert (await harness.take()).delivery.id == id

    async def test_a_stale_token_cannot_settle(self, harness: Harness) -> None:
        await harness.contract()
        id = await harness.send()
        for outcome in (
            Delivered(),
            Retry("late"),
            Dead(Reason.REJECTED, "late"),
            Dropped(Reason.EXPIRED),
            Handed(5),
        ):
            stale = await harness.take(lease_s=30)
            harness.clock.advance(31)
            await harness.store.deliveries.reclaim()
            held = await harness.take()
            assert await harness.settle(stale, outcome) is False
            row = await harness.row(id)
            assert (row.state, row.attempts, row.leased, row.last_error) == ("pending", 0, True, None)
            await harness.store.deliveries.release([held])
            await harness.store.deliveries.release([stale])
            assert (await harness.row(id)).leased is False
        assert await harness.store.operator.attempts(id) == []

    async def test_of_two_leases_on_one_delivery_in_one_batch_only_the_valid_one_settles(
        self, harness: Harness
    ) -> None:
        """A worker that was frozen, or lost its lease in a crash, may have claimed the delivery again since."""
        for first, second, state, attempts in (
            (Delivered(detail={"by": 1}), Delivered(detail={"by": 2}), "delivered", 1),
            (Retry("old"), Delivered(detail={"by": 2}), "delivered", 1),
            (Delivered(effects=[new_event("old", stream="s")]), Dead(Reason.REJECTED, "new"), "dead", 1),
            (Dead(Reason.REJECTED, "old"), Retry("new"), "pending", 1),
        ):
            await harness.contract()
            id = await harness.send()
            stale = await harness.take(lease_s=30)
            harness.clock.advance(31)
            await harness.store.deliveries.reclaim()
            held = await harness.take()
            assert await harness.settle_all([(stale, first), (held, second)]) == {id}
            row = await harness.row(id)
            assert (row.state, row.attempts) == (state, attempts)
            assert len(await harness.store.operator.attempts(id)) == 1
        assert await harness.store.events.stream("s") is None
        assert await harness.faults() == []

    async def test_a_settled_claim_cannot_be_settled_again(self, harness: Harness) -> None:
        await harness.contract()
        id = await harness.send()
        claim = await harness.take()
        assert await harness.settle(claim, Delivered())
        assert await harness.settle(claim, Dead(Reason.REJECTED, "no")) is False
        assert (await harness.row(id)).state == "delivered"

    async def test_every_pending_delivery_of_a_dead_owner_is_claimable_again(self, harness: Harness) -> None:
        """New, failed once, handed over and back, head of a lane: the sweep covers every state."""
        await harness.contract("plain", "handler:plain")
        await harness.contract("lane", "handler:lane", ordered=True)
        await harness.contract("talk", "session:x")
        await harness.emit(stream="s")
        await harness.route()
        first = {claim.delivery.contract_id: claim for claim in await harness.claim()}
        await harness.settle(first["plain"], Retry("503"))
        await harness.settle(first["talk"], Handed(5))
        harness.clock.advance(10)
        await harness.store.deliveries.resume_handed()
        again = await harness.claim()
        assert {claim.delivery.contract_id for claim in again} == {"plain", "talk"}
        await harness.crash()
        assert {claim.delivery.contract_id for claim in await harness.claim()} == {"plain", "lane", "talk"}

    async def test_work_of_a_dead_owner_is_claimable_at_once_and_not_when_its_lease_ends(
        self, harness: Harness
    ) -> None:
        await harness.contract()
        await harness.send()
        stale = await harness.take(lease_s=3600)
        await harness.crash()
        held = await harness.take()
        assert await harness.settle(stale, Delivered()) is False
        assert await harness.settle(held, Delivered()) is True

    async def test_work_of_a_retired_owner_is_reclaimable(self, harness: Harness) -> None:
        await harness.contract()
        await harness.send()
        await harness.take(lease_s=3600)
        await harness.store.owners.retire(harness.owner)
        assert await harness.store.deliveries.reclaim() == 1
        assert len(await harness.claim()) == 1

    async def test_work_leased_before_a_reboot_is_reclaimable(self, harness: Harness) -> None:
        await harness.contract()
        await harness.send()
        await harness.take(lease_s=3600)
        await harness.store.close()
        harness.clock.reboot("boot2")
        await harness.reopen()
        await harness.store.deliveries.reclaim()
        assert len(await harness.claim()) == 1

    async def test_renew_extends_a_lease(self, harness: Harness) -> None:
        await harness.contract()
        await harness.send()
        claim = await harness.take(lease_s=30)
        for _ in range(10):
            harness.clock.advance(20)
            assert await harness.store.deliveries.renew([claim], 30_000) == set()
            assert await harness.store.deliveries.reclaim() == 0
        harness.clock.advance(31)
        assert await harness.store.deliveries.reclaim() == 1

    async def test_renew_reports_lost_leases_and_renews_the_others(self, harness: Harness) -> None:
        await harness.contract()
        await harness.send()
        await harness.send()
        lost, held = await harness.claim(lease_s=30)
        await harness.store.deliveries.release([lost])
        (other,) = await harness.claim(lease_s=30)
        harness.clock.advance(20)
        assert await harness.store.deliveries.renew([lost, held], 30_000) == {lost.delivery.id}
        harness.clock.advance(20)
        assert await harness.store.deliveries.reclaim() == 1
        assert await harness.settle(held, Delivered())
        assert not await harness.settle(other, Delivered())

    async def test_release_gives_the_start_back(self, harness: Harness) -> None:
        await harness.contract()
        id = await harness.send()
        for _ in range(6):
            claim = await harness.take()
            assert claim.starts == 1
            await harness.store.deliveries.release([claim])
        row = await harness.row(id)
        assert (row.starts, row.attempts, row.leased) == (0, 0, False)

    async def test_a_wall_clock_that_steps_changes_no_lease(self, harness: Harness) -> None:
        await harness.contract()
        await harness.send()
        claim = await harness.take(lease_s=30)
        harness.clock.step_wall(86_400 * 3)
        assert await harness.store.deliveries.reclaim() == 0
        harness.clock.step_wall(-86_400 * 6)
        harness.clock.advance(31)
        assert await harness.store.deliveries.reclaim() == 1
        assert not await harness.settle(claim, Delivered())

    async def test_two_owners_never_hold_one_delivery(self, harness: Harness) -> None:
        harness.needs(Feature.MANY_OWNERS)
        await harness.contract()
        await harness.send()
        other = await harness.another()
        second = await other.owners.register()
        claim = await harness.take()
        assert await harness.claim(owner=second) == []
        assert await other.deliveries.reclaim() == 0
        assert await harness.settle(claim, Delivered())

    async def test_two_owners_share_a_contracts_concurrency(self, harness: Harness) -> None:
        harness.needs(Feature.MANY_OWNERS)
        await harness.contract(concurrency=2)
        await harness.contract("other", to="handler:o", type_criterion=Criterion(match="u"))
        for _ in range(5):
            await harness.send()
        second = await (await harness.another()).owners.register()
        held = await harness.claim(limit=1)
        held += await harness.claim(owner=second)
        assert len(held) == 2
        claimed = await harness.ask(100, owner=second)
        assert (claimed.claims, claimed.held_back) == ([], True)
        assert await harness.settle(held[0], Delivered())
        assert len(await harness.claim(owner=second)) == 1
        assert await harness.claim() == []

    async def test_a_single_owner_claims_ahead_of_a_contracts_concurrency(self, harness: Harness) -> None:
        await harness.contract(concurrency=2)
        for _ in range(5):
            await harness.send()
        assert len(await harness.claim()) == 5

    async def test_several_processes_share_a_long_queue_and_not_a_short_one(self, harness: Harness) -> None:
        harness.needs(Feature.MANY_OWNERS)
        await harness.contract()
        for _ in range(200):
            await harness.emit()
        await harness.route()
        other = await (await harness.another()).owners.register()
        first = await harness.ask(500)
        assert 64 <= len(first.claims) < 150, "others get the rest"
        assert first.next_due_ms is not None, "unless they do not take it: then there is more to claim soon"
        assert first.next_due_ms <= harness.clock.now_ms() + 1000
        second = await harness.ask(500, owner=other)
        assert 32 <= len(second.claims) < 200 - len(first.claims)
        left = 200 - len(first.claims) - len(second.claims)
        assert left < 64
        third = await harness.ask(500)
        assert len(third.claims) == left
        ids = [claim.delivery.id for claimed in (first, second, third) for claim in claimed.claims]
        assert len(set(ids)) == 200
