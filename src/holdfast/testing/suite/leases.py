"""Leases: one holder at a time, fenced by a token, and nothing that a dead holder could keep for ever."""

from __future__ import annotations

from holdfast.domain.contract import Criterion
from holdfast.domain.delivery import Dead, Delivered, Dropped, Handed, Retry
from holdfast.domain.event import new_event
from holdfast.domain.states import Reason
from holdfast.store.base import Feature
from holdfast.testing.suite.harness import Bench, StoreSuite


class LeasesSuite(StoreSuite):
    async def test_a_live_lease_is_not_reclaimable(self, bench: Bench) -> None:
        await bench.contract()
        await bench.send()
        claim = await bench.take(lease_s=30)
        bench.clock.advance(29.9)
        assert await bench.store.deliveries.reclaim() == 0
        assert await bench.claim() == []
        assert await bench.settle(claim, Delivered())

    async def test_a_lease_that_ended_is_reclaimable(self, bench: Bench) -> None:
        await bench.contract()
        id = await bench.send()
        await bench.take(lease_s=30)
        bench.clock.advance(30.001)
        assert await bench.store.deliveries.reclaim() == 1
        assert await bench.store.deliveries.reclaim() == 0
        assert (await bench.take()).delivery.id == id

    async def test_a_stale_token_cannot_settle(self, bench: Bench) -> None:
        await bench.contract()
        id = await bench.send()
        for outcome in (
            Delivered(),
            Retry("late"),
            Dead(Reason.REJECTED, "late"),
            Dropped(Reason.EXPIRED),
            Handed(5),
        ):
            stale = await bench.take(lease_s=30)
            bench.clock.advance(31)
            await bench.store.deliveries.reclaim()
            held = await bench.take()
            assert await bench.settle(stale, outcome) is False
            row = await bench.row(id)
            assert (row.state, row.attempts, row.leased, row.last_error) == ("pending", 0, True, None)
            await bench.store.deliveries.release([held])
            await bench.store.deliveries.release([stale])
            assert (await bench.row(id)).leased is False
        assert await bench.store.operator.attempts(id) == []

    async def test_of_two_leases_on_one_delivery_in_one_batch_only_the_living_one_settles(self, bench: Bench) -> None:
        """Somebody who stood still, or whose lease a crash undid, may hold what he claimed anew meanwhile."""
        for first, second, state, attempts in (
            (Delivered(detail={"by": 1}), Delivered(detail={"by": 2}), "delivered", 1),
            (Retry("old"), Delivered(detail={"by": 2}), "delivered", 1),
            (Delivered(effects=[new_event("old", stream="s")]), Dead(Reason.REJECTED, "new"), "dead", 1),
            (Dead(Reason.REJECTED, "old"), Retry("new"), "pending", 1),
        ):
            await bench.contract()
            id = await bench.send()
            stale = await bench.take(lease_s=30)
            bench.clock.advance(31)
            await bench.store.deliveries.reclaim()
            held = await bench.take()
            assert await bench.settle_all([(stale, first), (held, second)]) == {id}
            row = await bench.row(id)
            assert (row.state, row.attempts) == (state, attempts)
            assert len(await bench.store.operator.attempts(id)) == 1
        assert await bench.store.events.stream("s") is None
        assert await bench.faults() == []

    async def test_a_settled_claim_cannot_be_settled_again(self, bench: Bench) -> None:
        await bench.contract()
        id = await bench.send()
        claim = await bench.take()
        assert await bench.settle(claim, Delivered())
        assert await bench.settle(claim, Dead(Reason.REJECTED, "no")) is False
        assert (await bench.row(id)).state == "delivered"

    async def test_every_pending_delivery_of_a_dead_owner_is_claimable_again(self, bench: Bench) -> None:
        """Fresh, failed once, handed over and back, head of a lane: no state that the sweep omits."""
        await bench.contract("plain", "handler:plain")
        await bench.contract("lane", "handler:lane", ordered=True)
        await bench.contract("talk", "session:x")
        await bench.emit(stream="s")
        await bench.route()
        first = {claim.delivery.contract_id: claim for claim in await bench.claim()}
        await bench.settle(first["plain"], Retry("503"))
        await bench.settle(first["talk"], Handed(5))
        bench.clock.advance(10)
        await bench.store.deliveries.resume_handed()
        again = await bench.claim()
        assert {claim.delivery.contract_id for claim in again} == {"plain", "talk"}
        await bench.crash()
        assert {claim.delivery.contract_id for claim in await bench.claim()} == {"plain", "lane", "talk"}

    async def test_work_of_a_dead_owner_is_claimable_at_once_and_not_when_its_lease_ends(self, bench: Bench) -> None:
        await bench.contract()
        await bench.send()
        stale = await bench.take(lease_s=3600)
        await bench.crash()
        held = await bench.take()
        assert await bench.settle(stale, Delivered()) is False
        assert await bench.settle(held, Delivered()) is True

    async def test_work_of_a_retired_owner_is_reclaimable(self, bench: Bench) -> None:
        await bench.contract()
        await bench.send()
        await bench.take(lease_s=3600)
        await bench.store.owners.retire(bench.owner)
        assert await bench.store.deliveries.reclaim() == 1
        assert len(await bench.claim()) == 1

    async def test_work_leased_before_a_reboot_is_reclaimable(self, bench: Bench) -> None:
        await bench.contract()
        await bench.send()
        await bench.take(lease_s=3600)
        await bench.store.close()
        bench.clock.reboot("boot2")
        await bench.reopen()
        await bench.store.deliveries.reclaim()
        assert len(await bench.claim()) == 1

    async def test_renew_extends_a_lease(self, bench: Bench) -> None:
        await bench.contract()
        await bench.send()
        claim = await bench.take(lease_s=30)
        for _ in range(10):
            bench.clock.advance(20)
            assert await bench.store.deliveries.renew([claim], 30_000) == set()
            assert await bench.store.deliveries.reclaim() == 0
        bench.clock.advance(31)
        assert await bench.store.deliveries.reclaim() == 1

    async def test_renew_reports_what_is_lost_and_renews_the_rest(self, bench: Bench) -> None:
        await bench.contract()
        await bench.send()
        await bench.send()
        lost, held = await bench.claim(lease_s=30)
        await bench.store.deliveries.release([lost])
        (other,) = await bench.claim(lease_s=30)
        bench.clock.advance(20)
        assert await bench.store.deliveries.renew([lost, held], 30_000) == {lost.delivery.id}
        bench.clock.advance(20)
        assert await bench.store.deliveries.reclaim() == 1
        assert await bench.settle(held, Delivered())
        assert not await bench.settle(other, Delivered())

    async def test_release_gives_the_start_back(self, bench: Bench) -> None:
        await bench.contract()
        id = await bench.send()
        for _ in range(6):
            claim = await bench.take()
            assert claim.starts == 1
            await bench.store.deliveries.release([claim])
        row = await bench.row(id)
        assert (row.starts, row.attempts, row.leased) == (0, 0, False)

    async def test_a_wall_clock_that_steps_changes_no_lease(self, bench: Bench) -> None:
        await bench.contract()
        await bench.send()
        claim = await bench.take(lease_s=30)
        bench.clock.step_wall(86_400 * 3)
        assert await bench.store.deliveries.reclaim() == 0
        bench.clock.step_wall(-86_400 * 6)
        bench.clock.advance(31)
        assert await bench.store.deliveries.reclaim() == 1
        assert not await bench.settle(claim, Delivered())

    async def test_two_owners_never_hold_one_delivery(self, bench: Bench) -> None:
        bench.needs(Feature.MANY_OWNERS)
        await bench.contract()
        await bench.send()
        other = await bench.another()
        second = await other.owners.enlist()
        claim = await bench.take()
        assert await bench.claim(owner=second) == []
        assert await other.deliveries.reclaim() == 0
        assert await bench.settle(claim, Delivered())

    async def test_two_owners_share_a_contracts_concurrency(self, bench: Bench) -> None:
        bench.needs(Feature.MANY_OWNERS)
        await bench.contract(concurrency=2)
        await bench.contract("other", to="handler:o", type_criterion=Criterion(match="u"))
        for _ in range(5):
            await bench.send()
        second = await (await bench.another()).owners.enlist()
        held = await bench.claim(limit=1)
        held += await bench.claim(owner=second)
        assert len(held) == 2
        told = await bench.ask(100, owner=second)
        assert (told.claims, told.held_back) == ([], True)
        assert await bench.settle(held[0], Delivered())
        assert len(await bench.claim(owner=second)) == 1
        assert await bench.claim() == []

    async def test_who_is_alone_claims_ahead_of_a_contracts_concurrency(self, bench: Bench) -> None:
        await bench.contract(concurrency=2)
        for _ in range(5):
            await bench.send()
        assert len(await bench.claim()) == 5
