"""Receipts of other systems: one shared chain without gaps, one receipt for each source tuple."""

from __future__ import annotations

import asyncio
import json

import pytest

from holdfast.domain.errors import ChainContention
from holdfast.domain.receipt import Head
from holdfast.domain.substrate_receipt import CHAIN, SubstrateReceipt, parse_receipt
from holdfast.ledger.append import CONTENTION, append_receipt
from holdfast.store.roles.events import EventFilter
from holdfast.store.roles.receipts import StoredReceipt, SubstrateFilter
from holdfast.testing.suite.harness import Harness, StoreSuite

EVERY, NO_END = SubstrateFilter(), 1 << 62


def receipt(id: str = "1", **more: object) -> SubstrateReceipt:
    source = {"source_system": "shop", "source_table": "tasks", "source_id": id, "action_type": "task.done"}
    return parse_receipt({**source, **more}, "me")


async def append(harness: Harness, given: SubstrateReceipt) -> StoredReceipt:
    return await append_receipt(harness.store, given, "api:admin", harness.clock, harness.chance)


class SubstrateSuite(StoreSuite):
    async def test_receipts_of_all_systems_share_one_chain_without_gaps(self, harness: Harness) -> None:
        stored = [await append(harness, receipt(str(number))) for number in range(5)]
        assert [one.chain_seq for one in stored] == [1, 2, 3, 4, 5]
        assert not any(one.duplicate or one.differs for one in stored)
        links = [link for link in await harness.links() if link.chain == CHAIN]
        assert [(link.seq, link.hash) for link in links] == [(one.chain_seq, one.hash) for one in stored]
        assert (await harness.store.receipts.heads())[CHAIN] == Head(5, stored[-1].hash)
        assert await harness.faults() == []

    async def test_the_hash_covers_every_field(self, harness: Harness) -> None:
        given = receipt(tenant_id="t", input={"a": 1}, output=None, references={"run": "r1"}, source_version=3)
        stored = await append(harness, given)
        (link,) = await harness.links()
        leaf = json.loads(link.leaves)
        assert leaf == {
            **given.as_object(),
            "at": harness.clock.now_ms(),
            "chain_seq": 1,
            "id": stored.id,
            "written_by": "api:admin",
        }
        assert leaf["input_hash"] == "015abd7f5cc57a2dd94b7590f04ad8084273905ee33ec5cebeae62276a97f862"

    async def test_a_second_receipt_of_a_source_is_the_first_one(self, harness: Harness) -> None:
        first = await append(harness, receipt(input=1))
        again = await append(harness, receipt(input=1))
        assert again == first._replace(duplicate=True)
        other = await append(harness, receipt(input=2))
        assert other == first._replace(duplicate=True, differs=True)
        version = await append(harness, receipt(input=2, source_version="2"))
        assert (version.chain_seq, version.duplicate) == (2, False)
        assert len(await harness.store.receipts.substrate(EVERY, 0, NO_END, 10)) == 2

    async def test_many_at_once_get_a_place_each(self, harness: Harness) -> None:
        stored = await asyncio.gather(*(append(harness, receipt(str(number % 10))) for number in range(20)))
        assert sorted({one.chain_seq for one in stored}) == list(range(1, 11))
        assert sum(one.duplicate for one in stored) == 10
        assert await harness.faults() == []

    async def test_receipts_are_listed_in_order_and_by_field(self, harness: Harness) -> None:
        for number in range(4):
            await append(harness, receipt(str(number), tenant_id=f"t{number % 2}"))
        read = harness.store.receipts.substrate
        assert [row.source_id for row in await read(EVERY, 1, NO_END, 2)] == ["1", "2"]
        assert [row.source_id for row in await read(EVERY, 0, 2, 9)] == ["0", "1"]
        (row,) = await read(SubstrateFilter(source_id="3"), 0, NO_END, 9)
        links = [link for link in await harness.links() if link.chain == CHAIN]
        assert (row.chain_seq, row.prev, row.hash, row.at_ms) == (4, links[2].hash, links[3].hash, links[3].at_ms)
        assert [row.chain_seq for row in await read(SubstrateFilter(tenant_id="t1"), 0, NO_END, 9)] == [2, 4]
        assert await read(SubstrateFilter(source_system="other"), 0, NO_END, 9) == []

    async def test_the_shared_chain_is_no_processs_own(self, harness: Harness) -> None:
        await append(harness, receipt())
        chains = {harness.owner.chain}
        for _ in range(3):
            await harness.crash()
            chains.add(harness.owner.chain)
        assert CHAIN not in chains

    async def test_a_place_that_is_taken_twice_is_reported(
        self, harness: Harness, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async def taken(*arguments: object) -> StoredReceipt:
            tries.append(1)
            raise ChainContention("place 1 of the chain substrate is taken")

        tries: list[int] = []
        monkeypatch.setattr(harness.store.receipts, "append", taken)
        with pytest.raises(ChainContention, match="2 times in a row"):
            await append(harness, receipt())
        assert len(tries) == 2
        (event,) = (await harness.store.events.find(EventFilter(type=CONTENTION), None, 10)).items
        assert (event.source, event.payload["source_system"]) == ("holdfast", "shop")
