"""Receipts: one link per transaction, one leaf per transition, chains without gaps."""

from __future__ import annotations

import json

from holdfast.domain.chain_check import ChainFault
from holdfast.domain.delivery import Dead, Delivered, Handed, Retry
from holdfast.domain.event import NewEvent
from holdfast.domain.receipt import NO_LINKS, Head, Link
from holdfast.domain.states import Reason
from holdfast.store.roles.receipts import CheckedChain
from holdfast.testing.suite.harness import Harness, StoreSuite


def leaves(link: Link) -> list[dict[str, object]]:
    return [json.loads(line) for line in link.leaves.split(b"\n")]


class ReceiptsSuite(StoreSuite):
    async def test_a_fresh_chain_has_no_links(self, harness: Harness) -> None:
        assert await harness.links() == []
        assert (await harness.store.receipts.heads())[harness.owner.chain] == NO_LINKS

    async def test_one_settle_transaction_is_one_link_with_one_leaf_per_transition(self, harness: Harness) -> None:
        await harness.contract()
        for _ in range(3):
            await harness.send()
        first, second, third = await harness.claim()
        await harness.settle_all(
            [(first, Delivered()), (second, Retry("503")), (third, Dead(Reason.REJECTED, "secret words"))]
        )
        (link,) = await harness.links()
        assert (link.chain, link.seq, link.at_ms, link.count) == (harness.owner.chain, 1, harness.clock.now_ms(), 3)
        transitions = [(leaf["delivery"], leaf["state"], leaf["reason"], leaf["attempts"]) for leaf in leaves(link)]
        assert transitions == [
            (first.delivery.id, "delivered", None, 1),
            (second.delivery.id, "pending", None, 1),
            (third.delivery.id, "dead", "rejected", 1),
        ]
        assert leaves(link)[0]["event"] == first.event.id
        assert b"secret words" not in link.leaves

    async def test_links_are_found_by_the_time_of_their_transitions(self, harness: Harness) -> None:
        await harness.contract()
        moments = []
        for _ in range(3):
            await harness.send()
            (claim,) = await harness.claim()
            await harness.settle(claim, Delivered())
            moments.append(harness.clock.now_ms())
            harness.clock.advance(1)
        assert [row.settled_at_ms for row in await harness.rows()] == moments
        found = await harness.store.receipts.at([moments[2], moments[0], 5], 10)
        assert [(link.at_ms, link.seq) for link in found] == [(moments[0], 1), (moments[2], 3)]
        assert found == [link for link in await harness.links() if link.seq != 2]
        assert await harness.store.receipts.at(moments, 1) == found[:1]

    async def test_a_lost_settlement_leaves_no_leaf(self, harness: Harness) -> None:
        await harness.contract()
        await harness.send()
        await harness.send()
        stale, held = await harness.claim()
        await harness.store.deliveries.release([stale])
        assert not await harness.settle(stale, Delivered())
        assert await harness.links() == []
        await harness.settle_all([(stale, Delivered()), (held, Delivered())])
        (link,) = await harness.links()
        assert [leaf["delivery"] for leaf in leaves(link)] == [held.delivery.id]

    async def test_chains_verify_and_their_heads_match(self, harness: Harness) -> None:
        await harness.contract()
        for _ in range(20):
            await harness.send()
            await harness.end(Delivered())
        links = await harness.links()
        assert [link.seq for link in links] == list(range(1, 21))
        assert (await harness.store.receipts.heads())[harness.owner.chain] == Head(20, links[-1].hash)
        assert await harness.faults() == []

    async def test_a_chain_continues_after_a_crash(self, harness: Harness) -> None:
        await harness.contract()
        for _ in range(3):
            await harness.send()
            await harness.end(Delivered())
            await harness.crash()
        assert [(link.chain, link.seq) for link in await harness.links()] == [
            (harness.owner.chain, seq) for seq in (1, 2, 3)
        ]
        assert await harness.faults() == []

    async def test_an_operation_leaves_a_leaf_with_its_actor(self, harness: Harness) -> None:
        await harness.contract()
        id = await harness.send()
        await harness.end(Dead(Reason.REJECTED, "no"))
        await harness.store.operator.reprocess(harness.owner, [id], frozenset({"dead"}), 'ann "x"\n')
        await harness.store.operator.cancel(harness.owner, [id], "bob")
        _, revived, cancelled = [leaves(link)[0] for link in await harness.links()]
        assert (revived["actor"], revived["state"], revived["generation"]) == ('ann "x"\n', "pending", 2)
        assert (cancelled["actor"], cancelled["state"], cancelled["reason"]) == ("bob", "dropped", "cancelled")
        assert await harness.faults() == []

    async def test_an_operation_that_changed_nothing_leaves_no_link(self, harness: Harness) -> None:
        await harness.store.operator.cancel(harness.owner, [404], "me")
        await harness.store.operator.discard(harness.owner, [404], "me")
        await harness.store.operator.reprocess(harness.owner, [404], frozenset({"dead"}), "me")
        assert await harness.links() == []

    async def test_sweeps_leave_leaves(self, harness: Harness) -> None:
        await harness.contract("gone")
        await harness.contract("nobody", "handler:nobody")
        await harness.emit()
        await harness.route()
        await harness.store.contracts.remove("gone")
        await harness.store.deliveries.drop_removed(harness.owner)
        harness.clock.advance(3600)
        await harness.store.deliveries.dead_letter_unserved(harness.owner, 3_600_000, since_ms=0)
        ends = [(leaf["state"], leaf["reason"]) for link in await harness.links() for leaf in leaves(link)]
        assert ends == [("dropped", "contract_removed"), ("dead", "no_handler")]
        assert await harness.faults() == []

    async def test_handing_over_leaves_a_leaf(self, harness: Harness) -> None:
        await harness.contract()
        await harness.send()
        await harness.end(Handed(5))
        assert [leaf["state"] for link in await harness.links() for leaf in leaves(link)] == ["pending"]

    async def test_an_event_id_with_special_characters_breaks_no_chain(self, harness: Harness) -> None:
        await harness.contract()
        unusual = 'evt"\n,\\'
        await harness.store.events.append([NewEvent(type="t", payload=b"null", id=unusual)])
        await harness.route()
        await harness.end(Delivered())
        assert await harness.faults() == []
        assert leaves((await harness.links())[0])[0]["event"] == unusual

    async def test_how_far_a_chain_was_verified_is_recorded(self, harness: Harness) -> None:
        receipts = harness.store.receipts
        assert await receipts.checked() == []
        fault = ChainFault("node-0001", 7, "hash", "the link 7 was changed", 12)
        first = [CheckedChain("", 5, 0, 1, fault), CheckedChain("node-0001", 5, 9, 2, fault)]
        await receipts.record_checked(first)
        assert await receipts.checked() == first
        again = CheckedChain("node-0001", 6, 12)
        await receipts.record_checked([again])
        assert await receipts.checked() == [first[0], again]
        await receipts.record_checked([again], forget=True)
        assert await receipts.checked() == [again]

    async def test_links_are_read_in_pages_for_one_chain_and_for_all(self, harness: Harness) -> None:
        await harness.contract()
        for _ in range(5):
            await harness.send()
            await harness.end(Delivered())
        chain, read = harness.owner.chain, harness.store.receipts.links
        assert [link.seq for link in await read(chain, (chain, 2), 2)] == [3, 4]
        assert [link.seq for link in await read(None, ("", 0), 3)] == [1, 2, 3]
        assert [link.seq for link in await read(None, (chain, 3), 9)] == [4, 5]
        assert await read("none", ("none", 0), 9) == []
