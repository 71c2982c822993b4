"""A batch of ends: most arrive together, and each still answers for itself."""

from __future__ import annotations

import json

from holdfast.domain.delivery import Dead, Delivered, Retry
from holdfast.domain.states import Reason
from holdfast.testing.store_suite import Bench, OpenStore


async def test_who_lost_a_lease_and_who_has_it_now_settle_in_one_batch(open_store: OpenStore) -> None:
    bench = await Bench.start(open_store)
    await bench.contract()
    id, other = await bench.send(), await bench.send()
    stale = next(claim for claim in await bench.claim(lease_s=30) if claim.delivery.id == id)
    bench.clock.advance(31)
    await bench.store.deliveries.reclaim()
    held = {claim.delivery.id: claim for claim in await bench.claim()}
    ends = [(stale, Delivered()), (held[id], Delivered()), (held[other], Delivered())]
    assert await bench.settle_all(ends) == {id}
    assert [row.state for row in await bench.rows()] == ["delivered", "delivered"]
    assert [leaf["delivery"] for leaf in await leaves(bench)] == [id, other]
    await bench.close()


async def test_one_lease_settles_once_even_within_a_batch(open_store: OpenStore) -> None:
    bench = await Bench.start(open_store)
    await bench.contract()
    id = await bench.send()
    claim = await bench.take()
    assert await bench.settle_all(
        [(claim, Delivered()), (claim, Delivered()), (claim, Dead(Reason.REJECTED, "x"))]
    ) == {id}
    assert (await bench.row(id)).state == "delivered"
    assert len(await leaves(bench)) == 1
    await bench.close()


async def test_each_of_a_batch_keeps_its_own_attempts_and_lane(open_store: OpenStore) -> None:
    bench = await Bench.start(open_store)
    await bench.contract(ordered=True)
    ids = [await bench.send(stream=stream) for stream in ("a", "b", "c", "a", "b", "c")]
    first = {claim.delivery.id: claim for claim in await bench.claim()}
    assert sorted(first) == ids[:3]
    await bench.settle(first[ids[0]], Retry("503"))
    bench.clock.advance(3600)
    again = await bench.take()
    ends = [(first[ids[1]], Delivered()), (again, Delivered()), (first[ids[2]], Dead(Reason.REJECTED, "no"))]
    assert await bench.settle_all(ends) == set()
    rows = {row.id: row for row in await bench.rows()}
    assert [(rows[id].state, rows[id].attempts, rows[id].last_error) for id in ids[:3]] == [
        ("delivered", 2, None),
        ("delivered", 1, None),
        ("dead", 1, "no"),
    ]
    assert sorted(claim.delivery.id for claim in await bench.claim()) == ids[3:]
    assert [leaf["delivery"] for leaf in (await leaves(bench))[-3:]] == [ids[1], ids[0], ids[2]]
    assert await bench.faults() == []
    await bench.close()


async def leaves(bench: Bench) -> list[dict[str, object]]:
    links = await bench.store.receipts.links(None, ("", 0), 100)
    return [json.loads(line) for link in links for line in link.leaves.splitlines()]
