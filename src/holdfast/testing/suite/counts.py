"""Counts: what status shows is what there is, whatever was rolled back, sent twice, routed again or pruned."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.domain.delivery import Dead, Delivered
from holdfast.domain.errors import DedupConflict
from holdfast.domain.event import new_event
from holdfast.domain.states import Reason
from holdfast.testing.suite.harness import Bench, StoreSuite


class CountsSuite(StoreSuite):
    async def test_an_empty_store_counts_nothing(self, bench: Bench) -> None:
        assert await counted(bench) == {"events": 0, "unmatched": 0, "streams": 0, "unrouted": 0}

    async def test_events_are_counted_before_and_after_they_are_routed(self, bench: Bench) -> None:
        await bench.contract(ordered=True)
        for stream in ("a", "b", None, "a"):
            await bench.emit(stream=stream)
        assert await counted(bench) == {"events": 4, "unmatched": 0, "streams": 2, "unrouted": 4}
        await bench.route()
        assert await counted(bench) == {"events": 4, "unmatched": 0, "streams": 2, "unrouted": 0}
        await bench.emit(stream="c")
        assert await counted(bench) == {"events": 5, "unmatched": 0, "streams": 3, "unrouted": 1}

    async def test_what_was_refused_or_sent_twice_is_not_counted(self, bench: Bench) -> None:
        event = new_event("t", 1, stream="s", dedup_key="k")
        for _ in range(3):
            await bench.store.events.append([event])
        with pytest.raises(DedupConflict):
            await bench.store.events.append([new_event("t", 2, stream="other", dedup_key="k")])
        for _ in range(3):
            await bench.store.events.append([new_event("t", id="evt_same"), new_event("t", id="evt_same")])
        expected = {"events": 2, "unmatched": 0, "streams": 1, "unrouted": 2}
        assert await counted(bench) == expected
        await bench.route()
        assert await counted(bench) == expected | {"unrouted": 0, "unmatched": 2}

    async def test_what_was_pruned_is_not_counted(self, bench: Bench) -> None:
        await bench.contract("c", type_criterion=None)
        for stream in ("s", "s", None):
            await bench.emit(stream=stream)
        await bench.route()
        await bench.settle_all([(claim, Delivered()) for claim in await bench.claim()])
        bench.clock.advance(1)
        await bench.emit()
        await bench.route()
        assert (await bench.prune(delivered_s=0))["events"] == 3
        assert await counted(bench) == {"events": 1, "unmatched": 0, "streams": 1, "unrouted": 0}
        bench.clock.advance(1)
        assert (await bench.prune(dedup_s=0, streams_s=0))["streams"] == 1
        assert (await counted(bench))["streams"] == 0
        await bench.emit(stream="s")
        await bench.route()
        assert (await counted(bench))["streams"] == 1

    async def test_events_that_are_routed_again_are_counted_once(self, bench: Bench) -> None:
        ids = [(await bench.emit(stream=stream)).id for stream in ("s", "s", None)]
        await bench.route()
        expected = {"events": 3, "unmatched": 3, "streams": 1, "unrouted": 0}
        assert await counted(bench) == expected
        assert await bench.store.events.reroute([*ids, ids[0], "evt_none"]) == 3
        assert await counted(bench) == {"events": 3, "unmatched": 0, "streams": 1, "unrouted": 3}
        await bench.route()
        assert await counted(bench) == expected
        await bench.contract()
        assert await bench.store.events.reroute(ids[:2]) == 2
        await bench.route()
        assert await counted(bench) == expected | {"unmatched": 1}

    async def test_the_dead_and_the_pending_are_counted(self, bench: Bench) -> None:
        await bench.contract(ordered=True)
        for stream in ("a", "a", "b"):
            await bench.emit(stream=stream)
        await bench.route()
        first, *_ = await bench.claim(1)
        await bench.settle(first, Dead(Reason.REJECTED, "no"))
        figures = await bench.store.operator.figures()
        assert (figures["pending"], figures["dead"]) == (2, 1)


async def counted(bench: Bench) -> dict[str, Any]:
    figures = await bench.store.operator.figures()
    return {name: figures[name] for name in ("events", "unmatched", "streams", "unrouted")}
