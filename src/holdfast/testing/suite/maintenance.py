"""Maintenance: retention removes expired rows, and nothing that is still needed."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from holdfast.domain.bookmark import Bookmark
from holdfast.domain.delivery import Dead, Delivered, Dropped, Retry
from holdfast.domain.errors import Conflict
from holdfast.domain.event import new_event
from holdfast.domain.session import SessionChange, SessionState
from holdfast.domain.states import Reason
from holdfast.store.roles.events import EventFilter
from holdfast.store.roles.sessions import SessionFilter
from holdfast.store.roles.store import Feature
from holdfast.testing.suite.harness import Harness, StoreSuite

DAY = 86_400.0


class MaintenanceSuite(StoreSuite):
    async def test_retention_removes_delivered_deliveries_and_their_events(self, harness: Harness) -> None:
        await harness.contract()
        await harness.send(stream="s")
        await harness.end(Delivered(detail={"status": 200}))
        harness.clock.advance(6 * DAY)
        assert (await harness.prune(delivered_s=7 * DAY))["deliveries"] == 0
        harness.clock.advance(1 * DAY + 1)
        counts = await harness.prune(delivered_s=7 * DAY)
        assert (counts["deliveries"], counts["events"]) == (1, 1)
        assert await harness.rows() == []
        assert await harness.store.events.read("s", 0, 10) == []

    async def test_a_pruned_stream_continues_without_a_gap(self, harness: Harness) -> None:
        for _ in range(3):
            await harness.emit(stream="s")
        await harness.route()
        harness.clock.advance(1)
        assert (await harness.prune(delivered_s=0))["events"] == 3
        assert (await harness.emit(stream="s")).seq == 4

    async def test_retention_never_removes_an_unrouted_event(self, harness: Harness) -> None:
        one = await harness.emit()
        harness.clock.advance(1000 * DAY)
        assert (await harness.prune(delivered_s=0))["events"] == 0
        assert await harness.store.events.get(one.id) is not None
        assert await harness.store.routing.backlog() == 1

    async def test_retention_never_removes_a_pending_delivery_or_its_event(self, harness: Harness) -> None:
        await harness.contract("plain", "handler:p")
        await harness.contract("lane", "handler:l", ordered=True)
        for _ in range(2):
            await harness.emit(stream="s")
        await harness.route()
        claim = (await harness.claim(1))[0]
        await harness.settle(claim, Retry("503"))
        harness.clock.advance(1000 * DAY)
        counts = await harness.prune(delivered_s=0, inbound_s=0, dead_s=0)
        assert (counts["deliveries"], counts["events"], counts["lanes"]) == (0, 0, 0)
        assert len(await harness.rows(state="pending")) == 4

    async def test_retention_never_removes_events_ahead_of_a_cursor(self, harness: Harness) -> None:
        await harness.store.cursors.ensure("publisher", "s")
        await harness.store.events.append([new_event("t", stream=stream) for stream in ("s", "s", "s", "other")])
        await harness.route()
        await harness.store.cursors.advance("publisher", "s", 2)
        harness.clock.advance(1)
        assert (await harness.prune(delivered_s=0))["events"] == 3
        assert [event.seq for event in await harness.store.events.read("s", 0, 10)] == [3]
        await harness.store.cursors.advance("publisher", "s", 3)
        assert (await harness.prune(delivered_s=0))["events"] == 1

    async def test_dead_deliveries_are_kept_longer(self, harness: Harness) -> None:
        await harness.contract()
        dead = await harness.send()
        await harness.end(Dead(Reason.REJECTED, "no"))
        await harness.send()
        await harness.end(Dropped(Reason.EXPIRED))
        harness.clock.advance(10 * DAY)
        assert (await harness.prune(delivered_s=7 * DAY, dead_s=30 * DAY))["deliveries"] == 1
        row = await harness.row(dead)
        assert row.state == "dead"
        assert await harness.store.events.get(row.event_id) is not None
        assert len(await harness.store.operator.attempts(dead)) == 1
        harness.clock.advance(21 * DAY)
        counts = await harness.prune(delivered_s=7 * DAY, dead_s=30 * DAY)
        assert (counts["deliveries"], counts["events"]) == (1, 1)
        assert await harness.store.operator.attempts(dead) == []

    async def test_messages_for_sessions_have_their_own_retention(self, harness: Harness) -> None:
        await harness.contract("s", "session:x")
        await harness.contract("h", "handler:h")
        await harness.emit()
        await harness.route()
        for claim in await harness.claim():
            await harness.settle(claim, Delivered())
        harness.clock.advance(4 * DAY)
        assert (await harness.prune(delivered_s=7 * DAY, inbound_s=3 * DAY))["deliveries"] == 1
        assert [row.contract_id for row in await harness.rows()] == ["h"]

    async def test_a_pruned_dedup_key_can_be_used_again(self, harness: Harness) -> None:
        await harness.emit("t", 1, dedup_key="k")
        harness.clock.advance(31 * DAY)
        assert (await harness.prune(dedup_s=30 * DAY))["dedup_keys"] == 1
        assert (await harness.emit("t", 2, dedup_key="k")).duplicate is False

    async def test_a_dedup_key_outlives_its_event(self, harness: Harness) -> None:
        first = await harness.emit("t", 1, stream="s", dedup_key="k")
        await harness.route()
        harness.clock.advance(10 * DAY)
        assert (await harness.prune(delivered_s=7 * DAY, dedup_s=30 * DAY))["events"] == 1
        again = await harness.emit("t", 1, stream="s", dedup_key="k")
        assert (again.id, again.seq, again.duplicate) == (first.id, 1, True)
        assert await harness.store.events.get(first.id) is None

    async def test_receipts_are_never_removed(self, harness: Harness) -> None:
        await harness.contract()
        await harness.send()
        await harness.end(Delivered())
        harness.clock.advance(10_000 * DAY)
        await harness.prune(delivered_s=0, inbound_s=0, dead_s=0, dedup_s=0)
        delivered, pruned = await harness.links()
        assert b'"state":"delivered"' in delivered.leaves
        assert json.loads(pruned.leaves) == {
            "action": "prune",
            "actor": "retention",
            "at": harness.clock.now_ms(),
            "pruned_deliveries": [[1, 1]],
        }
        assert await harness.faults() == []

    async def test_unmatched_events_are_pruned_too(self, harness: Harness) -> None:
        await harness.emit()
        await harness.route()
        harness.clock.advance(8 * DAY)
        assert (await harness.prune(delivered_s=7 * DAY))["events"] == 1
        assert (await harness.store.events.find(EventFilter(unmatched=True), None, 10)).items == []
        assert (await harness.store.operator.figures()).unmatched == 0

    async def test_a_session_is_pruned_with_everything_that_belongs_to_it(self, harness: Harness) -> None:
        await self._session(harness, "gone", SessionState.CLOSED)
        await self._session(harness, "silent", SessionState.WORKING)  # its CLI never reported an end
        await harness.store.bookmarks.put("gone", "abc", Bookmark(0, 10))
        await harness.store.bookmarks.put("gone-not", "abc", Bookmark(0, 10))
        harness.clock.advance(89 * DAY)
        await self._session(harness, "fresh", SessionState.CLOSED)
        assert (await harness.prune(sessions_s=90 * DAY))["sessions"] == 0
        harness.clock.advance(1 * DAY + 1)
        assert (await harness.prune(sessions_s=90 * DAY))["sessions"] == 2
        assert [one.id for one in (await harness.store.sessions.find(SessionFilter(), None, 10)).items] == ["fresh"]
        assert await harness.store.bookmarks.get("gone", "abc") is None
        assert await harness.store.bookmarks.get("gone-not", "abc") == Bookmark(0, 10)

    async def test_a_session_outlives_its_events_and_pending_messages(self, harness: Harness) -> None:
        for id in ("streamed", "addressed"):
            await self._session(harness, id, SessionState.ENDED)
        await harness.emit(stream="session:streamed")
        await harness.emit(to="session:addressed")
        await harness.route()
        harness.clock.advance(100 * DAY)
        assert (await harness.prune(sessions_s=90 * DAY))["sessions"] == 0
        await harness.end(Delivered(), kinds=["session"])
        harness.clock.advance(1)
        counts = await harness.prune(delivered_s=0, inbound_s=0, sessions_s=90 * DAY)
        assert (counts["events"], counts["sessions"]) == (2, 2)

    async def test_a_stream_is_kept_long_after_its_last_event(self, harness: Harness) -> None:
        for _ in range(2):
            await harness.emit(stream="s")
        await harness.route()
        harness.clock.advance(8 * DAY)
        assert (await harness.prune(delivered_s=7 * DAY))["events"] == 2
        harness.clock.advance(365 * DAY - 1)
        assert (await harness.prune(dedup_s=30 * DAY, streams_s=365 * DAY))["streams"] == 0
        assert (await harness.emit(stream="s")).seq == 3

    async def test_a_stream_that_stayed_empty_is_pruned(self, harness: Harness) -> None:
        await self._empty(harness, "old", "kept")
        harness.clock.advance(300 * DAY)
        await self._empty(harness, "kept")
        harness.clock.advance(66 * DAY)
        assert (await harness.prune(dedup_s=30 * DAY, streams_s=365 * DAY))["streams"] == 1
        assert await harness.store.events.stream("old") is None
        assert (await harness.emit(stream="old")).seq == 1
        assert (await harness.emit(stream="kept")).seq == 3

    async def test_a_stream_with_new_events_is_not_pruned(self, harness: Harness) -> None:
        await self._empty(harness, "s")
        await harness.emit(stream="s")
        harness.clock.advance(1000 * DAY)
        for _ in range(2):
            assert (await harness.prune(dedup_s=0, streams_s=365 * DAY))["streams"] == 0
        assert (await harness.emit(stream="s")).seq == 3

    async def test_a_stream_used_by_a_cursor_or_a_session_is_not_pruned(self, harness: Harness) -> None:
        await self._session(harness, "x", SessionState.IDLE)
        await harness.store.cursors.ensure("publisher", "read")
        await harness.store.events.append([new_event("t", stream=stream) for stream in ("read", "session:x")])
        await harness.store.cursors.advance("publisher", "read", 1)
        await harness.route()
        harness.clock.advance(1)
        assert (await harness.prune(delivered_s=0))["events"] == 2
        harness.clock.advance(1000 * DAY)
        assert (await harness.prune(dedup_s=0, streams_s=365 * DAY))["streams"] == 0
        assert (await harness.emit(stream="read")).seq == (await harness.emit(stream="session:x")).seq == 2

    async def test_a_stream_is_kept_as_long_as_its_dedup_keys(self, harness: Harness) -> None:
        await harness.emit(stream="s", dedup_key="k")
        await harness.route()
        harness.clock.advance(1)
        await harness.prune(delivered_s=0)
        harness.clock.advance(20 * DAY)
        counts = await harness.prune(dedup_s=30 * DAY, streams_s=1 * DAY)
        assert (counts["dedup_keys"], counts["streams"]) == (0, 0)
        harness.clock.advance(11 * DAY)
        counts = await harness.prune(dedup_s=30 * DAY, streams_s=1 * DAY)
        assert (counts["dedup_keys"], counts["streams"]) == (1, 1)

    async def _empty(self, harness: Harness, *streams: str) -> None:
        """Append an event to each stream and prune it."""
        await harness.store.events.append([new_event("t", stream=stream) for stream in streams])
        await harness.route()
        harness.clock.advance(1)
        assert (await harness.prune(delivered_s=0))["events"] == len(streams)

    async def _session(self, harness: Harness, id: str, state: SessionState) -> None:
        await harness.store.sessions.change(SessionChange(id, "cli-a", f"native-{id}", state=state))

    async def test_pruning_respects_its_limit(self, harness: Harness) -> None:
        await harness.contract()
        await harness.store.events.append([new_event("t", dedup_key=f"k{i}") for i in range(7)])
        await harness.route()
        await harness.settle_all([(claim, Delivered()) for claim in await harness.claim()])
        harness.clock.advance(1)
        for left in (4, 1, 0):
            counts = await harness.prune(delivered_s=0, dedup_s=0, limit=3)
            assert max(counts.values()) <= 3
            assert len(await harness.rows()) == left

    async def test_pruning_streams_and_sessions_respects_its_limit(self, harness: Harness) -> None:
        await self._empty(harness, *"abcde")
        for id in "abcde":
            await self._session(harness, id, SessionState.CLOSED)
        harness.clock.advance(1)
        for left in (3, 1, 0):
            counts = await harness.prune(dedup_s=0, sessions_s=0, streams_s=0, limit=2)
            assert counts["streams"] == counts["sessions"] <= 2
            assert len((await harness.store.events.streams(None, 10)).items) == left
            assert len((await harness.store.sessions.find(SessionFilter(), None, 10)).items) == left

    async def test_pruning_an_empty_store_removes_nothing(self, harness: Harness) -> None:
        assert set((await harness.prune(delivered_s=0, dedup_s=0)).values()) == {0}

    async def test_a_delivery_id_is_never_given_twice(self, harness: Harness) -> None:
        await harness.contract()
        first = await harness.send()
        await harness.end(Delivered())
        harness.clock.advance(1)
        await harness.prune(delivered_s=0)
        await harness.crash()
        assert await harness.send() > first

    async def test_a_healthy_store_has_nothing_to_report(self, harness: Harness) -> None:
        await harness.emit()
        await harness.store.maintenance.checkpoint()
        assert await harness.store.maintenance.check() == []

    async def test_a_commit_of_another_process_is_noticed(self, harness: Harness) -> None:
        other = await harness.another()
        harness.store.maintenance.changed_elsewhere()
        assert harness.store.maintenance.changed_elsewhere() is False
        await other.events.append([new_event("t")])
        assert harness.store.maintenance.changed_elsewhere() is True
        assert harness.store.maintenance.changed_elsewhere() is False

    async def test_a_backup_is_one_file_and_never_overwrites(self, harness: Harness, tmp_path: Path) -> None:
        harness.needs(Feature.BACKUP)
        await harness.emit()
        await harness.store.maintenance.backup(tmp_path / "copy")
        assert [name for name in os.listdir(tmp_path) if name.startswith("copy")] == ["copy"]
        with pytest.raises(Conflict):
            await harness.store.maintenance.backup(tmp_path / "copy")
