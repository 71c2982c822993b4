"""Owners: one per running process, with a receipt chain of its own."""

from __future__ import annotations

import os

import pytest

from holdfast.domain.delivery import Delivered
from holdfast.domain.errors import KeeperHeld
from holdfast.domain.event import new_event
from holdfast.store.roles.store import Feature
from holdfast.testing.suite.harness import Harness, StoreSuite


class OwnersSuite(StoreSuite):
    async def test_a_chain_is_used_again_after_its_owner_retired(self, harness: Harness) -> None:
        await harness.store.owners.retire(harness.owner)
        successor = await harness.store.owners.register()
        assert successor.chain == harness.owner.chain
        assert successor.id != harness.owner.id

    async def test_a_chain_is_used_again_after_its_owner_died(self, harness: Harness) -> None:
        before = harness.owner
        for _ in range(5):
            await harness.crash()
        assert harness.owner.chain == before.chain
        assert len(await harness.store.receipts.heads()) == 1

    async def test_a_chain_is_never_shared_by_two_live_owners(self, harness: Harness) -> None:
        other = await harness.another()
        owners = [harness.owner, *[await other.owners.register() for _ in range(3)]]
        assert len({owner.chain for owner in owners}) == len({owner.id for owner in owners}) == 4
        await other.owners.retire(owners[2])
        assert (await other.owners.register()).chain == owners[2].chain

    async def test_working_owners_are_listed_with_what_they_hold(self, harness: Harness) -> None:
        await harness.contract("c")
        await harness.send()
        await harness.send()
        await harness.claim(1)
        (one,) = await harness.store.owners.working(10)
        assert (one.id, one.chain, one.pid, one.alive) == (harness.owner.id, harness.owner.chain, os.getpid(), True)
        assert (one.deliveries, one.streams, one.started_ms) == (1, 0, harness.clock.now_ms())
        assert one.seen_ms is not None
        await harness.store.owners.retire(harness.owner)
        (one,) = await harness.store.owners.working(10)  # it still holds a lease
        assert (one.deliveries, await harness.store.owners.working(0)) == (1, [])

    async def test_retiring_twice_is_harmless(self, harness: Harness) -> None:
        await harness.store.owners.retire(harness.owner)
        await harness.store.owners.retire(harness.owner)

    async def test_an_owner_id_is_never_reused(self, harness: Harness) -> None:
        seen = [harness.owner.id]
        for _ in range(4):
            harness.clock.advance(86_400 * 2)
            await harness.crash()
            seen.append(harness.owner.id)
        assert len(set(seen)) == len(seen)

    async def test_a_second_keeper_is_refused_until_the_first_is_gone(self, harness: Harness) -> None:
        harness.needs(Feature.ONE_KEEPER)
        with pytest.raises(KeeperHeld):
            await harness.another(keep=True)
        await harness.store.close()
        await harness.reopen()

    async def test_a_store_that_is_not_the_keeper_may_still_append(self, harness: Harness) -> None:
        other = await harness.another()
        await harness.contract()
        await other.events.append([new_event("t")])
        await harness.route()
        await harness.end(Delivered())

    async def test_closing_twice_is_harmless(self, harness: Harness) -> None:
        await harness.store.close()
        await harness.store.close()
