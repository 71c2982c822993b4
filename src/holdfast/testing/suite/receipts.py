"""Receipts: one link per transaction, one leaf per transition, chains without gaps."""

from __future__ import annotations

import json

from holdfast.domain.delivery import Dead, Delivered, Handed, Retry
from holdfast.domain.event import NewEvent
from holdfast.domain.receipt import NO_LINKS, Head, Link
from holdfast.domain.states import Reason
from holdfast.testing.suite.harness import Bench, StoreSuite


def leaves(link: Link) -> list[dict[str, object]]:
    return [json.loads(line) for line in link.leaves.split(b"\n")]


class ReceiptsSuite(StoreSuite):
    async def test_a_fresh_chain_has_no_links(self, bench: Bench) -> None:
        assert await bench.links() == []
        assert (await bench.store.receipts.heads())[bench.owner.chain] == NO_LINKS

    async def test_one_settle_transaction_is_one_link_with_one_leaf_per_transition(self, bench: Bench) -> None:
        await bench.contract()
        for _ in range(3):
            await bench.send()
        first, second, third = await bench.claim()
        await bench.settle_all(
            [(first, Delivered()), (second, Retry("503")), (third, Dead(Reason.REJECTED, "secret words"))]
        )
        (link,) = await bench.links()
        assert (link.chain, link.seq, link.at_ms, link.count) == (bench.owner.chain, 1, bench.clock.now_ms(), 3)
        told = [(leaf["delivery"], leaf["state"], leaf["reason"], leaf["attempts"]) for leaf in leaves(link)]
        assert told == [
            (first.delivery.id, "delivered", None, 1),
            (second.delivery.id, "pending", None, 1),
            (third.delivery.id, "dead", "rejected", 1),
        ]
        assert leaves(link)[0]["event"] == first.event.id
        assert b"secret words" not in link.leaves

    async def test_links_are_found_by_the_moment_of_what_they_speak_of(self, bench: Bench) -> None:
        await bench.contract()
        moments = []
        for _ in range(3):
            await bench.send()
            (claim,) = await bench.claim()
            await bench.settle(claim, Delivered())
            moments.append(bench.clock.now_ms())
            bench.clock.advance(1)
        assert [row.settled_at_ms for row in await bench.rows()] == moments
        found = await bench.store.receipts.at([moments[2], moments[0], 5], 10)
        assert [(link.at_ms, link.seq) for link in found] == [(moments[0], 1), (moments[2], 3)]
        assert found == [link for link in await bench.links() if link.seq != 2]
        assert await bench.store.receipts.at(moments, 1) == found[:1]

    async def test_a_lost_settlement_leaves_no_leaf(self, bench: Bench) -> None:
        await bench.contract()
        await bench.send()
        await bench.send()
        stale, held = await bench.claim()
        await bench.store.deliveries.release([stale])
        assert not await bench.settle(stale, Delivered())
        assert await bench.links() == []
        await bench.settle_all([(stale, Delivered()), (held, Delivered())])
        (link,) = await bench.links()
        assert [leaf["delivery"] for leaf in leaves(link)] == [held.delivery.id]

    async def test_chains_verify_and_their_heads_match(self, bench: Bench) -> None:
        await bench.contract()
        for _ in range(20):
            await bench.send()
            await bench.end(Delivered())
        links = await bench.links()
        assert [link.seq for link in links] == list(range(1, 21))
        assert (await bench.store.receipts.heads())[bench.owner.chain] == Head(20, links[-1].hash)
        assert await bench.faults() == []

    async def test_a_chain_goes_on_after_a_crash(self, bench: Bench) -> None:
        await bench.contract()
        for _ in range(3):
            await bench.send()
            await bench.end(Delivered())
            await bench.crash()
        assert [(link.chain, link.seq) for link in await bench.links()] == [
            (bench.owner.chain, seq) for seq in (1, 2, 3)
        ]
        assert await bench.faults() == []

    async def test_what_an_operator_does_leaves_a_leaf_with_the_actor(self, bench: Bench) -> None:
        await bench.contract()
        id = await bench.send()
        await bench.end(Dead(Reason.REJECTED, "no"))
        await bench.store.operator.reprocess(bench.owner, [id], frozenset({"dead"}), 'ann "x"\n')
        await bench.store.operator.cancel(bench.owner, [id], "bob")
        _, revived, cancelled = [leaves(link)[0] for link in await bench.links()]
        assert (revived["actor"], revived["state"], revived["generation"]) == ('ann "x"\n', "pending", 2)
        assert (cancelled["actor"], cancelled["state"], cancelled["reason"]) == ("bob", "dropped", "cancelled")
        assert await bench.faults() == []

    async def test_an_operator_who_changed_nothing_leaves_no_link(self, bench: Bench) -> None:
        await bench.store.operator.cancel(bench.owner, [404], "me")
        await bench.store.operator.discard(bench.owner, [404], "me")
        await bench.store.operator.reprocess(bench.owner, [404], frozenset({"dead"}), "me")
        assert await bench.links() == []

    async def test_sweeps_leave_leaves(self, bench: Bench) -> None:
        await bench.contract("gone")
        await bench.contract("nobody", "handler:nobody")
        await bench.emit()
        await bench.route()
        await bench.store.contracts.remove("gone")
        await bench.store.deliveries.drop_removed(bench.owner)
        bench.clock.advance(3600)
        await bench.store.deliveries.bury_unserved(bench.owner, 3_600_000, since_ms=0)
        told = [(leaf["state"], leaf["reason"]) for link in await bench.links() for leaf in leaves(link)]
        assert told == [("dropped", "contract_removed"), ("dead", "no_handler")]
        assert await bench.faults() == []

    async def test_handing_over_leaves_a_leaf(self, bench: Bench) -> None:
        await bench.contract()
        await bench.send()
        await bench.end(Handed(5))
        assert [leaf["state"] for link in await bench.links() for leaf in leaves(link)] == ["pending"]

    async def test_an_event_id_that_somebody_chose_badly_breaks_no_chain(self, bench: Bench) -> None:
        await bench.contract()
        ugly = 'evt"\n,\\'
        await bench.store.events.append([NewEvent(type="t", payload=b"null", id=ugly)])
        await bench.route()
        await bench.end(Delivered())
        assert await bench.faults() == []
        assert leaves((await bench.links())[0])[0]["event"] == ugly

    async def test_links_are_read_in_pages_for_one_chain_and_for_all(self, bench: Bench) -> None:
        await bench.contract()
        for _ in range(5):
            await bench.send()
            await bench.end(Delivered())
        chain, read = bench.owner.chain, bench.store.receipts.links
        assert [link.seq for link in await read(chain, (chain, 2), 2)] == [3, 4]
        assert [link.seq for link in await read(None, ("", 0), 3)] == [1, 2, 3]
        assert [link.seq for link in await read(None, (chain, 3), 9)] == [4, 5]
        assert await read("none", ("none", 0), 9) == []
