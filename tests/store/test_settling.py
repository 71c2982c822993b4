"""Settling in batches: each settlement has its own result."""

from __future__ import annotations

import json

from holdfast.domain.delivery import Dead, Delivered, Retry
from holdfast.domain.states import Reason
from holdfast.testing.store_suite import Harness, OpenStore


async def test_the_former_and_the_present_holder_of_a_lease_settle_in_one_batch(open_store: OpenStore) -> None:
    harness = await Harness.start(open_store)
    await harness.contract()
    id, other = await harness.send(), await harness.send()
    stale = next(claim for claim in await harness.claim(lease_s=30) if claim.delivery.id == id)
    harness.clock.advance(31)
    await harness.store.deliveries.reclaim()
    held = {claim.delivery.id: claim for claim in await harness.claim()}
    ends = [(stale, Delivered()), (held[id], Delivered()), (held[other], Delivered())]
    assert await harness.settle_all(ends) == {id}
    assert [row.state for row in await harness.rows()] == ["delivered", "delivered"]
    assert [leaf["delivery"] for leaf in await leaves(harness)] == [id, other]
    await harness.close()


async def test_one_lease_settles_once_even_within_a_batch(open_store: OpenStore) -> None:
    harness = await Harness.start(open_store)
    await harness.contract()
    id = await harness.send()
    claim = await harness.take()
    assert await harness.settle_all(
        [(claim, Delivered()), (claim, Delivered()), (claim, Dead(Reason.REJECTED, "x"))]
    ) == {id}
    assert (await harness.row(id)).state == "delivered"
    assert len(await leaves(harness)) == 1
    await harness.close()


async def test_each_of_a_batch_keeps_its_own_attempts_and_lane(open_store: OpenStore) -> None:
    harness = await Harness.start(open_store)
    await harness.contract(ordered=True)
    ids = [await harness.send(stream=stream) for stream in ("a", "b", "c", "a", "b", "c")]
    first = {claim.delivery.id: claim for claim in await harness.claim()}
    assert sorted(first) == ids[:3]
    await harness.settle(first[ids[0]], Retry("503"))
    harness.clock.advance(3600)
    again = await harness.take()
    ends = [(first[ids[1]], Delivered()), (again, Delivered()), (first[ids[2]], Dead(Reason.REJECTED, "no"))]
    assert await harness.settle_all(ends) == set()
    rows = {row.id: row for row in await harness.rows()}
    assert [(rows[id].state, rows[id].attempts, rows[id].last_error) for id in ids[:3]] == [
        ("delivered", 2, None),
        ("delivered", 1, None),
        ("dead", 1, "no"),
    ]
    assert sorted(claim.delivery.id for claim in await harness.claim()) == ids[3:]
    assert [leaf["delivery"] for leaf in (await leaves(harness))[-3:]] == [ids[1], ids[0], ids[2]]
    assert await harness.faults() == []
    await harness.close()


async def leaves(harness: Harness) -> list[dict[str, object]]:
    links = await harness.store.receipts.links(None, ("", 0), 100)
    return [json.loads(line) for link in links for line in link.leaves.splitlines()]
