"""Care: retention removes what is past its time and nothing that somebody still needs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from holdfast.domain.delivery import Dead, Delivered, Dropped, Retry
from holdfast.domain.errors import Conflict
from holdfast.domain.event import new_event
from holdfast.domain.session import SessionChange, SessionState
from holdfast.domain.states import Reason
from holdfast.store.base import EventFilter, Feature, SessionFilter
from holdfast.testing.suite.harness import Bench, StoreSuite

DAY = 86_400.0


class CareSuite(StoreSuite):
    async def test_retention_removes_what_was_delivered_and_its_event(self, bench: Bench) -> None:
        await bench.contract()
        await bench.send(stream="s")
        await bench.end(Delivered(detail={"status": 200}))
        bench.clock.advance(6 * DAY)
        assert (await bench.prune(delivered_s=7 * DAY))["deliveries"] == 0
        bench.clock.advance(1 * DAY + 1)
        counts = await bench.prune(delivered_s=7 * DAY)
        assert (counts["deliveries"], counts["events"]) == (1, 1)
        assert await bench.rows() == []
        assert await bench.store.events.read("s", 0, 10) == []

    async def test_a_pruned_stream_goes_on_without_a_gap(self, bench: Bench) -> None:
        for _ in range(3):
            await bench.emit(stream="s")
        await bench.route()
        bench.clock.advance(1)
        assert (await bench.prune(delivered_s=0))["events"] == 3
        assert (await bench.emit(stream="s")).seq == 4

    async def test_retention_never_removes_an_unrouted_event(self, bench: Bench) -> None:
        one = await bench.emit()
        bench.clock.advance(1000 * DAY)
        assert (await bench.prune(delivered_s=0))["events"] == 0
        assert await bench.store.events.get(one.id) is not None
        assert await bench.store.routing.backlog() == 1

    async def test_retention_never_removes_a_pending_delivery_or_its_event(self, bench: Bench) -> None:
        await bench.contract("plain", "handler:p")
        await bench.contract("lane", "handler:l", ordered=True)
        for _ in range(2):
            await bench.emit(stream="s")
        await bench.route()
        claim = (await bench.claim(1))[0]
        await bench.settle(claim, Retry("503"))
        bench.clock.advance(1000 * DAY)
        counts = await bench.prune(delivered_s=0, inbound_s=0, dead_s=0)
        assert (counts["deliveries"], counts["events"], counts["lanes"]) == (0, 0, 0)
        assert len(await bench.rows(state="pending")) == 4

    async def test_retention_never_removes_what_a_cursor_still_needs(self, bench: Bench) -> None:
        await bench.store.cursors.ensure("publisher", "s")
        await bench.store.events.append([new_event("t", stream=stream) for stream in ("s", "s", "s", "other")])
        await bench.route()
        await bench.store.cursors.advance("publisher", "s", 2)
        bench.clock.advance(1)
        assert (await bench.prune(delivered_s=0))["events"] == 3
        assert [event.seq for event in await bench.store.events.read("s", 0, 10)] == [3]
        await bench.store.cursors.advance("publisher", "s", 3)
        assert (await bench.prune(delivered_s=0))["events"] == 1

    async def test_the_dead_are_kept_longer(self, bench: Bench) -> None:
        await bench.contract()
        dead = await bench.send()
        await bench.end(Dead(Reason.REJECTED, "no"))
        await bench.send()
        await bench.end(Dropped(Reason.EXPIRED))
        bench.clock.advance(10 * DAY)
        assert (await bench.prune(delivered_s=7 * DAY, dead_s=30 * DAY))["deliveries"] == 1
        row = await bench.row(dead)
        assert row.state == "dead"
        assert await bench.store.events.get(row.event_id) is not None
        assert len(await bench.store.operator.attempts(dead)) == 1
        bench.clock.advance(21 * DAY)
        counts = await bench.prune(delivered_s=7 * DAY, dead_s=30 * DAY)
        assert (counts["deliveries"], counts["events"]) == (1, 1)
        assert await bench.store.operator.attempts(dead) == []

    async def test_messages_for_sessions_have_their_own_time(self, bench: Bench) -> None:
        await bench.contract("s", "session:x")
        await bench.contract("h", "handler:h")
        await bench.emit()
        await bench.route()
        for claim in await bench.claim():
            await bench.settle(claim, Delivered())
        bench.clock.advance(4 * DAY)
        assert (await bench.prune(delivered_s=7 * DAY, inbound_s=3 * DAY))["deliveries"] == 1
        assert [row.contract_id for row in await bench.rows()] == ["h"]

    async def test_a_forgotten_dedup_key_can_be_used_again(self, bench: Bench) -> None:
        await bench.emit("t", 1, dedup_key="k")
        bench.clock.advance(31 * DAY)
        assert (await bench.prune(dedup_s=30 * DAY))["dedup_keys"] == 1
        assert (await bench.emit("t", 2, dedup_key="k")).duplicate is False

    async def test_a_dedup_key_outlives_its_event(self, bench: Bench) -> None:
        first = await bench.emit("t", 1, stream="s", dedup_key="k")
        await bench.route()
        bench.clock.advance(10 * DAY)
        assert (await bench.prune(delivered_s=7 * DAY, dedup_s=30 * DAY))["events"] == 1
        again = await bench.emit("t", 1, stream="s", dedup_key="k")
        assert (again.id, again.seq, again.duplicate) == (first.id, 1, True)
        assert await bench.store.events.get(first.id) is None

    async def test_receipts_are_never_removed(self, bench: Bench) -> None:
        await bench.contract()
        await bench.send()
        await bench.end(Delivered())
        bench.clock.advance(10_000 * DAY)
        await bench.prune(delivered_s=0, inbound_s=0, dead_s=0, dedup_s=0)
        assert len(await bench.links()) == 1
        assert await bench.faults() == []

    async def test_unmatched_events_go_with_time_too(self, bench: Bench) -> None:
        await bench.emit()
        await bench.route()
        bench.clock.advance(8 * DAY)
        assert (await bench.prune(delivered_s=7 * DAY))["events"] == 1
        assert (await bench.store.events.find(EventFilter(unmatched=True), None, 10)).items == []
        assert (await bench.store.operator.figures())["unmatched"] == 0

    async def test_a_session_goes_when_its_time_is_over_and_nothing_of_it_is_left(self, bench: Bench) -> None:
        await self._session(bench, "gone", SessionState.CLOSED)
        await self._session(bench, "silent", SessionState.WORKING)  # its CLI never said that it ended
        await bench.store.cursors.ensure("transcripts", "session:gone#abc")
        await bench.store.cursors.ensure("transcripts", "session:gone-not#abc")
        bench.clock.advance(89 * DAY)
        await self._session(bench, "fresh", SessionState.CLOSED)
        assert (await bench.prune(sessions_s=90 * DAY))["sessions"] == 0
        bench.clock.advance(1 * DAY + 1)
        assert (await bench.prune(sessions_s=90 * DAY))["sessions"] == 2
        assert [one.id for one in (await bench.store.sessions.find(SessionFilter(), None, 10)).items] == ["fresh"]
        assert await bench.store.cursors.get("transcripts", "session:gone#abc") is None
        assert await bench.store.cursors.get("transcripts", "session:gone-not#abc") is not None

    async def test_a_session_outlives_its_events_and_the_messages_that_wait_for_it(self, bench: Bench) -> None:
        for id in ("told", "asked"):
            await self._session(bench, id, SessionState.ENDED)
        await bench.emit(stream="session:told")
        await bench.emit(to="session:asked")
        await bench.route()
        bench.clock.advance(100 * DAY)
        assert (await bench.prune(sessions_s=90 * DAY))["sessions"] == 0
        await bench.end(Delivered(), kinds=["session"])
        bench.clock.advance(1)
        counts = await bench.prune(delivered_s=0, inbound_s=0, sessions_s=90 * DAY)
        assert (counts["events"], counts["sessions"]) == (2, 2)

    async def test_a_stream_is_remembered_long_after_its_last_event(self, bench: Bench) -> None:
        for _ in range(2):
            await bench.emit(stream="s")
        await bench.route()
        bench.clock.advance(8 * DAY)
        assert (await bench.prune(delivered_s=7 * DAY))["events"] == 2
        bench.clock.advance(365 * DAY - 1)
        assert (await bench.prune(dedup_s=30 * DAY, streams_s=365 * DAY))["streams"] == 0
        assert (await bench.emit(stream="s")).seq == 3

    async def test_a_stream_that_stayed_empty_is_forgotten(self, bench: Bench) -> None:
        await self._empty(bench, "old", "kept")
        bench.clock.advance(300 * DAY)
        await self._empty(bench, "kept")
        bench.clock.advance(66 * DAY)
        assert (await bench.prune(dedup_s=30 * DAY, streams_s=365 * DAY))["streams"] == 1
        assert await bench.store.events.stream("old") is None
        assert (await bench.emit(stream="old")).seq == 1
        assert (await bench.emit(stream="kept")).seq == 3

    async def test_a_stream_that_was_filled_again_is_not_forgotten(self, bench: Bench) -> None:
        await self._empty(bench, "s")
        await bench.emit(stream="s")
        bench.clock.advance(1000 * DAY)
        for _ in range(2):
            assert (await bench.prune(dedup_s=0, streams_s=365 * DAY))["streams"] == 0
        assert (await bench.emit(stream="s")).seq == 3

    async def test_a_stream_that_a_reader_or_a_session_names_is_not_forgotten(self, bench: Bench) -> None:
        await self._session(bench, "x", SessionState.IDLE)
        await bench.store.cursors.ensure("publisher", "read")
        await bench.store.events.append([new_event("t", stream=stream) for stream in ("read", "session:x")])
        await bench.store.cursors.advance("publisher", "read", 1)
        await bench.route()
        bench.clock.advance(1)
        assert (await bench.prune(delivered_s=0))["events"] == 2
        bench.clock.advance(1000 * DAY)
        assert (await bench.prune(dedup_s=0, streams_s=365 * DAY))["streams"] == 0
        assert (await bench.emit(stream="read")).seq == (await bench.emit(stream="session:x")).seq == 2

    async def test_a_stream_is_remembered_as_long_as_its_dedup_keys(self, bench: Bench) -> None:
        await bench.emit(stream="s", dedup_key="k")
        await bench.route()
        bench.clock.advance(1)
        await bench.prune(delivered_s=0)
        bench.clock.advance(20 * DAY)
        counts = await bench.prune(dedup_s=30 * DAY, streams_s=1 * DAY)
        assert (counts["dedup_keys"], counts["streams"]) == (0, 0)
        bench.clock.advance(11 * DAY)
        counts = await bench.prune(dedup_s=30 * DAY, streams_s=1 * DAY)
        assert (counts["dedup_keys"], counts["streams"]) == (1, 1)

    async def _empty(self, bench: Bench, *streams: str) -> None:
        """Give each of these streams an event and let retention take it."""
        await bench.store.events.append([new_event("t", stream=stream) for stream in streams])
        await bench.route()
        bench.clock.advance(1)
        assert (await bench.prune(delivered_s=0))["events"] == len(streams)

    async def _session(self, bench: Bench, id: str, state: SessionState) -> None:
        await bench.store.sessions.change(SessionChange(id, "claude", f"native-{id}", state=state))

    async def test_pruning_removes_at_most_what_it_is_asked_to(self, bench: Bench) -> None:
        await bench.contract()
        await bench.store.events.append([new_event("t", dedup_key=f"k{i}") for i in range(7)])
        await bench.route()
        await bench.settle_all([(claim, Delivered()) for claim in await bench.claim()])
        bench.clock.advance(1)
        for left in (4, 1, 0):
            counts = await bench.prune(delivered_s=0, dedup_s=0, limit=3)
            assert max(counts.values()) <= 3
            assert len(await bench.rows()) == left

    async def test_pruning_removes_at_most_so_many_streams_and_sessions(self, bench: Bench) -> None:
        await self._empty(bench, *"abcde")
        for id in "abcde":
            await self._session(bench, id, SessionState.CLOSED)
        bench.clock.advance(1)
        for left in (3, 1, 0):
            counts = await bench.prune(dedup_s=0, sessions_s=0, streams_s=0, limit=2)
            assert counts["streams"] == counts["sessions"] <= 2
            assert len((await bench.store.events.streams(None, 10)).items) == left
            assert len((await bench.store.sessions.find(SessionFilter(), None, 10)).items) == left

    async def test_pruning_an_empty_store_removes_nothing(self, bench: Bench) -> None:
        assert set((await bench.prune(delivered_s=0, dedup_s=0)).values()) == {0}

    async def test_a_delivery_id_is_never_given_twice(self, bench: Bench) -> None:
        await bench.contract()
        first = await bench.send()
        await bench.end(Delivered())
        bench.clock.advance(1)
        await bench.prune(delivered_s=0)
        await bench.crash()
        assert await bench.send() > first

    async def test_a_healthy_store_has_nothing_to_report(self, bench: Bench) -> None:
        await bench.emit()
        await bench.store.care.checkpoint()
        assert await bench.store.care.check() == []

    async def test_a_commit_of_another_process_is_noticed(self, bench: Bench) -> None:
        other = await bench.another()
        bench.store.care.changed_elsewhere()
        assert bench.store.care.changed_elsewhere() is False
        await other.events.append([new_event("t")])
        assert bench.store.care.changed_elsewhere() is True
        assert bench.store.care.changed_elsewhere() is False

    async def test_a_backup_is_whole_and_never_overwrites(self, bench: Bench, tmp_path: Path) -> None:
        bench.needs(Feature.BACKUP)
        await bench.emit()
        await bench.store.care.backup(tmp_path / "copy")
        assert [name for name in os.listdir(tmp_path) if name.startswith("copy")] == ["copy"]
        with pytest.raises(Conflict):
            await bench.store.care.backup(tmp_path / "copy")
