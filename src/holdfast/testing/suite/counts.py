"""Counts: status numbers stay correct through rollbacks, duplicates, rerouting and pruning."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.domain.delivery import Dead, Delivered
from holdfast.domain.errors import DedupConflict
from holdfast.domain.event import new_event
from holdfast.domain.states import Reason
from holdfast.testing.suite.harness import Harness, StoreSuite


class CountsSuite(StoreSuite):
    async def test_an_empty_store_counts_nothing(self, harness: Harness) -> None:
        assert await counted(harness) == {"events": 0, "unmatched": 0, "streams": 0, "unrouted": 0}

    async def test_the_size_of_the_store_is_known(self, harness: Harness) -> None:
        await harness.emit()
        sizes = await harness.store.maintenance.sizes()
        assert sizes.store is not None
        assert sizes.store > 0

    async def test_events_are_counted_before_and_after_they_are_routed(self, harness: Harness) -> None:
        await harness.contract(ordered=True)
        for stream in ("a", "b", None, "a"):
            await harness.emit(stream=stream)
        assert await counted(harness) == {"events": 4, "unmatched": 0, "streams": 2, "unrouted": 4}
        await harness.route()
        assert await counted(harness) == {"events": 4, "unmatched": 0, "streams": 2, "unrouted": 0}
        await harness.emit(stream="c")
        assert await counted(harness) == {"events": 5, "unmatched": 0, "streams": 3, "unrouted": 1}

    async def test_refused_and_duplicate_events_are_not_counted(self, harness: Harness) -> None:
        event = new_event("t", 1, stream="s", dedup_key="k")
        for _ in range(3):
            await harness.store.events.append([event])
        with pytest.raises(DedupConflict):
            await harness.store.events.append([new_event("t", 2, stream="other", dedup_key="k")])
        for _ in range(3):
            await harness.store.events.append([new_event("t", id="evt_same"), new_event("t", id="evt_same")])
        expected = {"events": 2, "unmatched": 0, "streams": 1, "unrouted": 2}
        assert await counted(harness) == expected
        await harness.route()
        assert await counted(harness) == expected | {"unrouted": 0, "unmatched": 2}

    async def test_pruned_events_are_not_counted(self, harness: Harness) -> None:
        await harness.contract("c", type_criterion=None)
        for stream in ("s", "s", None):
            await harness.emit(stream=stream)
        await harness.route()
        await harness.settle_all([(claim, Delivered()) for claim in await harness.claim()])
        harness.clock.advance(1)
        await harness.emit()
        await harness.route()
        assert (await harness.prune(delivered_s=0))["events"] == 3
        assert await counted(harness) == {"events": 1, "unmatched": 0, "streams": 1, "unrouted": 0}
        harness.clock.advance(1)
        assert (await harness.prune(dedup_s=0, streams_s=0))["streams"] == 1
        assert (await counted(harness))["streams"] == 0
        await harness.emit(stream="s")
        await harness.route()
        assert (await counted(harness))["streams"] == 1

    async def test_events_that_are_routed_again_are_counted_once(self, harness: Harness) -> None:
        ids = [(await harness.emit(stream=stream)).id for stream in ("s", "s", None)]
        await harness.route()
        expected = {"events": 3, "unmatched": 3, "streams": 1, "unrouted": 0}
        assert await counted(harness) == expected
        assert await harness.store.events.reroute([*ids, ids[0], "evt_none"]) == 3
        assert await counted(harness) == {"events": 3, "unmatched": 0, "streams": 1, "unrouted": 3}
        await harness.route()
        assert await counted(harness) == expected
        await harness.contract()
        assert await harness.store.events.reroute(ids[:2]) == 2
        await harness.route()
        assert await counted(harness) == expected | {"unmatched": 1}

    async def test_dead_and_pending_deliveries_are_counted(self, harness: Harness) -> None:
        await harness.contract(ordered=True)
        for stream in ("a", "a", "b"):
            await harness.emit(stream=stream)
        await harness.route()
        first, *_ = await harness.claim(1)
        await harness.settle(first, Dead(Reason.REJECTED, "no"))
        figures = await harness.store.operator.figures()
        assert (figures.pending, figures.dead) == (2, 1)


async def counted(harness: Harness) -> dict[str, Any]:
    figures = await harness.store.operator.figures()
    return {name: getattr(figures, name) for name in ("events", "unmatched", "streams", "unrouted")}
