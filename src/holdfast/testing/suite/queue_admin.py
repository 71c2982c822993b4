"""Suite: the ready queue as a whole."""

from __future__ import annotations

from holdfast.domain.delivery import Delivered
from holdfast.store.roles.queue_admin import QueueMove
from holdfast.testing.suite.harness import Harness, StoreSuite


class QueueAdminSuite(StoreSuite):
    async def test_moving_a_queue_to_where_it_is_changes_nothing(self, harness: Harness) -> None:
        admin = harness.store.queue_admin
        kind = await admin.kind()
        await harness.contract()
        await harness.send()
        links = len(await harness.links())
        assert await admin.move(kind, harness.owner.acting("test")) == QueueMove(kind, kind, 0)
        assert len(await harness.links()) == links
        await harness.end(Delivered())

    async def test_the_depth_counts_what_can_be_claimed_or_is_leased(self, harness: Harness) -> None:
        admin = harness.store.queue_admin
        await harness.contract("c", ordered=True)
        assert (await admin.load()).depth == 0
        for _ in range(2):
            await harness.send(stream="s")  # the second waits behind the first
        await harness.send()
        assert (await admin.load()).depth == 2
        claims = await harness.claim()
        assert (await admin.load()).depth == 2
        await harness.settle_all([(claim, Delivered()) for claim in claims])
        assert (await admin.load()).depth == 1

    async def test_a_queue_that_agrees_with_its_deliveries_needs_no_repair(self, harness: Harness) -> None:
        admin = harness.store.queue_admin
        await harness.contract("c", ordered=True)
        for _ in range(3):
            await harness.send(stream="s")
            await harness.send()
        await harness.claim(limit=2)
        position, steps = -1, 0
        while position:
            added, removed, position = await admin.repair(max(position, 0), 2)
            assert (added, removed) == (0, 0)
            steps += 1
            assert steps < 100
        assert (await admin.load()).depth == 4
