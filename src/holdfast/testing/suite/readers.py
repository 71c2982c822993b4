"""Readers: the streams in which each reader lags, leased to one process at a time."""

from __future__ import annotations

from holdfast.domain.event import new_event
from holdfast.domain.reader import Reader
from holdfast.store.roles.readers import NewEvents, Progress, StreamLease
from holdfast.store.roles.store import Feature
from holdfast.testing.suite.harness import Harness, StoreSuite

RUNS = Reader("runs", "run:*")
LEASE_MS = 30_000


class ReadersSuite(StoreSuite):
    async def test_a_registered_reader_is_listed_and_changes_the_contracts_version(self, harness: Harness) -> None:
        readers, contracts = harness.store.readers, harness.store.contracts
        before = await contracts.version()
        await readers.register([RUNS])
        assert await readers.all() == [RUNS]
        assert await contracts.version() > before
        again = await contracts.version()
        await readers.register([RUNS])
        assert await contracts.version() == again  # nothing changed

    async def test_readers_that_are_no_longer_given_end(self, harness: Harness) -> None:
        readers = harness.store.readers
        await readers.register([Reader("sink:a", "*"), Reader("sink:b", "*"), RUNS])
        await harness.emit(stream="run:1")
        await self._mark(harness, "sink:b", "run:1", 1, 1)
        await readers.register([Reader("sink:a", "*")], only="sink:")
        assert [reader.name for reader in await readers.all()] == ["runs", "sink:a"]
        assert await readers.next_due(["sink:b"]) is None

    async def test_new_events_make_a_stream_claimable_once(self, harness: Harness) -> None:
        await self._lagging(harness, "run:1", 3)
        (lease,) = await self._claim(harness)
        assert (lease.stream, lease.position, lease.head, lease.failures) == ("run:1", 0, 3, 0)
        assert await self._claim(harness) == []

    async def test_a_stream_read_to_its_head_leaves_the_list(self, harness: Harness) -> None:
        await self._lagging(harness, "run:1", 3)
        (lease,) = await self._claim(harness)
        assert await harness.store.readers.settle([Progress(lease, 3, 0)]) == {("runs", "run:1")}
        cursor = await harness.store.cursors.get("runs", "run:1")
        assert cursor is not None
        assert cursor.position == 3
        assert await harness.store.readers.next_due(["runs"]) is None

    async def test_events_that_arrive_meanwhile_keep_the_stream_on_the_list(self, harness: Harness) -> None:
        await self._lagging(harness, "run:1", 3)
        (lease,) = await self._claim(harness)
        await harness.emit(stream="run:1")
        await self._mark(harness, "runs", "run:1", 4, 4)
        await harness.store.readers.settle([Progress(lease, 3, 0)])
        (again,) = await self._claim(harness)
        assert (again.position, again.head) == (3, 4)

    async def test_events_that_were_read_already_are_not_marked(self, harness: Harness) -> None:
        await self._lagging(harness, "run:1", 2)
        (lease,) = await self._claim(harness)
        await harness.store.readers.settle([Progress(lease, 2, 0)])
        await self._mark(harness, "runs", "run:1", 1, 2)
        assert await self._claim(harness) == []

    async def test_the_longest_waiting_stream_comes_first(self, harness: Harness) -> None:
        for number in (2, 1, 3):
            await self._lagging(harness, f"run:{number}", 1)
            harness.clock.advance(1)
        (first,) = await self._claim(harness, 1)
        await harness.store.readers.settle([Progress(first, 0, 0)])  # nothing was read: it waits again
        rest = await self._claim(harness)
        assert [first.stream, *(lease.stream for lease in rest)] == ["run:2", "run:1", "run:3", "run:2"]

    async def test_a_failed_stream_is_due_later_with_its_error(self, harness: Harness) -> None:
        await self._lagging(harness, "run:1", 2)
        (lease,) = await self._claim(harness)
        await harness.store.readers.settle([Progress(lease, 1, 7, delay_ms=5000, error="refused", alarmed=True)])
        assert await self._claim(harness) == []
        assert await harness.store.readers.next_due(["runs"]) == 5000
        (state,) = await harness.store.cursors.of_stream("run:1", 10)
        assert (state.position, state.failures, state.error) == (1, 1, "refused")
        harness.clock.advance(5)
        (again,) = await self._claim(harness)
        assert (again.position, again.failures, again.alarmed, again.since_ms) == (1, 1, True, 7)

    async def test_a_lease_that_was_lost_moves_nothing(self, harness: Harness) -> None:
        await self._lagging(harness, "run:1", 2)
        (lost,) = await self._claim(harness)
        harness.clock.advance(LEASE_MS / 1000 + 1)
        assert await harness.store.readers.reclaim(harness.owner.id) == 1
        (held,) = await self._claim(harness)
        assert await harness.store.readers.settle([Progress(lost, 2, 0)]) == set()
        cursor = await harness.store.cursors.get("runs", "run:1")
        assert cursor is not None
        assert cursor.position == 0
        assert await harness.store.readers.settle([Progress(held, 2, 0)]) == {("runs", "run:1")}

    async def test_an_extended_lease_is_kept(self, harness: Harness) -> None:
        await self._lagging(harness, "run:1", 2)
        (lease,) = await self._claim(harness)
        harness.clock.advance(LEASE_MS / 1000 - 1)
        await harness.store.readers.extend([lease], LEASE_MS)
        harness.clock.advance(2)
        assert await harness.store.readers.reclaim(harness.owner.id) == 0

    async def test_the_leases_of_a_dead_process_are_freed_at_once(self, harness: Harness) -> None:
        await self._lagging(harness, "run:1", 2)
        await self._claim(harness)
        await harness.crash()
        await harness.store.readers.reclaim(harness.owner.id)
        assert [lease.stream for lease in await self._claim(harness)] == ["run:1"]

    async def test_two_processes_share_the_streams(self, harness: Harness) -> None:
        harness.needs(Feature.MANY_OWNERS)
        for number in range(4):
            await self._lagging(harness, f"run:{number}", 1)
        other = await harness.another()
        mine, theirs = await self._claim(harness, 2), await other.readers.claim("runs", 10, LEASE_MS)
        assert sorted(lease.stream for lease in [*mine, *theirs]) == [f"run:{number}" for number in range(4)]

    async def test_a_survey_finds_streams_that_exist_already(self, harness: Harness) -> None:
        names = [*(f"run:{number:04}" for number in range(700)), "walk:1", "a"]
        await harness.store.events.append([new_event("t", stream=name) for name in names])
        await harness.store.readers.register([RUNS, Reader("late", "run:*", "now")])
        assert await harness.store.readers.survey("runs") is True
        assert await harness.store.readers.survey("runs") is False
        assert await harness.store.readers.survey("runs") is False
        assert await harness.store.readers.survey("late") is False
        assert len(await self._claim(harness, 1000)) == 700
        assert await harness.store.readers.next_due(["late"]) is None

    async def test_a_reader_that_starts_now_begins_before_the_new_event(self, harness: Harness) -> None:
        for _ in range(3):
            await harness.emit(stream="run:1")
        await harness.store.readers.register([Reader("late", "run:*", "now")])
        await self._mark(harness, "late", "run:1", 3, 3)
        (lease,) = await harness.store.readers.claim("late", 10, LEASE_MS)
        assert (lease.position, lease.head) == (2, 3)

    async def test_a_new_cursor_begins_after_what_was_pruned(self, harness: Harness) -> None:
        for _ in range(3):
            await harness.emit(stream="run:1")
        await harness.route()
        harness.clock.advance(10)
        await harness.prune(delivered_s=5)
        await harness.emit(stream="run:1")
        await self._lagging(harness, "run:1", 0)
        (lease,) = await self._claim(harness)
        assert (lease.position, lease.head) == (3, 4)

    async def test_the_state_of_a_reader_shows_its_lag(self, harness: Harness) -> None:
        await self._lagging(harness, "run:1", 2)
        oldest_ms = harness.clock.now_ms()
        await self._lagging(harness, "run:2", 3)
        (lease, _) = await self._claim(harness)
        await harness.store.readers.settle([Progress(lease, 1, 0, delay_ms=1, error="refused")])
        (state,) = await harness.store.readers.states()
        assert (state.name, state.active, state.streams, state.events, state.failing) == ("runs", True, 2, 4, 1)
        assert (state.error, state.oldest_ms, state.expired) == ("refused", oldest_ms, 0)
        harness.clock.advance(100)
        assert len(await harness.store.cursors.expire(harness.clock.now_ms(), 10)) == 2
        assert [state.expired for state in await harness.store.readers.states()] == [2]

    async def test_a_reader_without_a_process_ends_after_a_while(self, harness: Harness) -> None:
        await harness.store.readers.register([RUNS])
        harness.clock.advance(100)
        assert await harness.store.readers.expire(harness.clock.now_ms() - 200_000) == []
        assert await harness.store.readers.expire(harness.clock.now_ms() - 50_000) == ["runs"]
        assert await harness.store.readers.all() == []
        assert [state.active for state in await harness.store.readers.states()] == [False]

    async def test_an_idle_cursor_behind_its_stream_expires(self, harness: Harness) -> None:
        for stream in ("run:1", "run:2"):
            await harness.emit(stream=stream)
            await harness.store.cursors.ensure("a", stream)
        await harness.store.cursors.advance("a", "run:2", 1)  # at the head: it holds nothing back
        await harness.store.cursors.ensure("a", "run:3")
        harness.clock.advance(100)
        await harness.emit(stream="run:3")  # the cursor is old, but had nothing to read
        await harness.route()
        (expired,) = await harness.store.cursors.expire(harness.clock.now_ms() - 50_000, 10)
        assert (expired.reader, expired.stream) == ("a", "run:1")
        assert await harness.store.cursors.expire(harness.clock.now_ms() - 50_000, 10) == []
        harness.clock.advance(1)
        assert (await harness.prune(delivered_s=0))["events"] == 2
        await harness.store.cursors.advance("a", "run:1", 1)
        (state,) = await harness.store.cursors.of_stream("run:1", 10)
        assert state.expired_at_ms is None

    async def test_several_streams_are_read_at_once(self, harness: Harness) -> None:
        for stream in ("a", "a", "a", "b"):
            await harness.emit(stream=stream)
        found = await harness.store.events.read_many([("a", 1), ("none", 0), ("b", 0), ("a", 3)], 5, 1 << 20)
        assert [[event.seq for event in events] for events in found] == [[2, 3], [], [1], []]
        found = await harness.store.events.read_many([("a", 0), ("b", 0)], 2, 1)
        assert [[event.seq for event in events] for events in found] == [[1], [1]]
        assert await harness.store.events.first_seq("a") == 1
        assert await harness.store.events.first_seq("none") is None

    async def _lagging(self, harness: Harness, stream: str, count: int) -> None:
        await harness.store.readers.register([RUNS])
        for _ in range(count):
            await harness.emit(stream=stream)
        row = await harness.store.events.stream(stream)
        assert row is not None
        await self._mark(harness, "runs", stream, 1, row.head)

    async def _mark(self, harness: Harness, reader: str, stream: str, first: int, head: int) -> None:
        await harness.store.readers.mark([NewEvents(reader, stream, first, head, harness.clock.now_ms())])

    async def _claim(self, harness: Harness, limit: int = 100) -> list[StreamLease]:
        return await harness.store.readers.claim("runs", limit, LEASE_MS, harness.owner.id)
