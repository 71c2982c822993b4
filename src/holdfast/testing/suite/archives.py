"""Archives: events are archived from the front of their stream, and pruned only afterwards."""

from __future__ import annotations

from holdfast.domain.delivery import Delivered
from holdfast.domain.event import new_event
from holdfast.store.roles.archives import ArchiveRow, EventRange
from holdfast.store.roles.maintenance import Retention
from holdfast.testing.suite.harness import Harness, StoreSuite

HOUR_MS = 3_600_000
KEPT = Retention(0, HOUR_MS, HOUR_MS, HOUR_MS, archive=True)


class ArchivesSuite(StoreSuite):
    async def test_events_that_nothing_needs_are_ripe(self, harness: Harness) -> None:
        await harness.store.events.append([new_event("t", stream=stream) for stream in ("a", "b", "a")])
        await harness.store.events.append([new_event("t")])
        assert await self._ripe(harness) == []  # not routed yet
        await harness.route()
        assert await self._ripe(harness) == [EventRange("a", 1, 2), EventRange("b", 1, 1)]

    async def test_events_ahead_of_a_cursor_are_not_ripe(self, harness: Harness) -> None:
        await harness.store.events.append([new_event("t", stream="a") for _ in range(3)])
        await harness.route()
        await harness.store.cursors.ensure("r", "a")
        assert await self._ripe(harness) == []
        await harness.store.cursors.advance("r", "a", 2)
        assert await self._ripe(harness) == [EventRange("a", 1, 2)]

    async def test_an_event_of_a_stream_is_pruned_only_after_it_is_archived(self, harness: Harness) -> None:
        await harness.store.events.append([new_event("t", stream="a") for _ in range(3)])
        await harness.store.events.append([new_event("t")])
        await harness.route()
        harness.clock.advance(1)
        assert await self._prune(harness) == 1  # the one without a stream
        assert await self._record(harness, "one", EventRange("a", 1, 2))
        assert await self._prune(harness) == 2
        assert [event.seq for event in await harness.store.events.read("a", 0, 10)] == [3]
        assert await self._ripe(harness) == [EventRange("a", 3, 3)]

    async def test_archives_are_listed_and_found_by_stream(self, harness: Harness) -> None:
        await harness.store.events.append([new_event("t", stream="a") for _ in range(4)])
        await self._record(harness, "one", EventRange("a", 1, 2))
        await self._record(harness, "two", EventRange("a", 3, 4))
        assert [row.id for row in await harness.store.archives.all("", 10)] == ["one", "two"]
        assert [row.id for row in await harness.store.archives.all("one", 10)] == ["two"]
        assert [found.archive for found in await harness.store.archives.holding("a", 0, 10)] == ["one", "two"]
        assert [found.archive for found in await harness.store.archives.holding("a", 2, 10)] == ["two"]

    async def test_retention_leaves_no_gap_in_a_stream(self, harness: Harness) -> None:
        await harness.contract(to="handler:h")
        await harness.emit(stream="a")
        await harness.route()
        claim = await harness.take()
        await harness.store.contracts.remove("c")
        await harness.store.events.append([new_event("t", stream=stream) for stream in ("a", "b", "a")])
        await harness.route()
        harness.clock.advance(1)
        assert (await harness.prune(delivered_s=0))["events"] == 1  # of b: the first of a is still needed
        assert [event.seq for event in await harness.store.events.read("a", 0, 10)] == [1, 2, 3]
        await harness.settle(claim, Delivered())
        harness.clock.advance(1)
        assert (await harness.prune(delivered_s=0))["events"] == 3

    async def _ripe(self, harness: Harness) -> list[EventRange]:
        return await harness.store.archives.archivable(harness.clock.now_ms() + 1, 100)

    async def _record(self, harness: Harness, id: str, *ranges: EventRange) -> bool:
        return await harness.store.archives.record(ArchiveRow(id, 1, 1, "00", harness.clock.now_ms()), ranges)

    async def _prune(self, harness: Harness) -> int:
        by = harness.owner.acting("retention")
        return (await harness.store.maintenance.prune(KEPT, 100, by))["events"]
