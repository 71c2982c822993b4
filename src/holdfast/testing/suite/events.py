"""Events: each accepted event is stored once and in order."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from holdfast.domain.errors import DedupConflict
from holdfast.domain.event import Event, new_event
from holdfast.store.roles.events import EventFilter
from holdfast.store.roles.page import PAGE_BYTES_MAX
from holdfast.testing.suite.harness import Harness, StoreSuite


class EventsSuite(StoreSuite):
    async def test_events_are_found_by_words_and_properties(self, harness: Harness) -> None:
        placed = await harness.emit("order.placed", source="shop", stream="order:1", properties={"plan": "Pro", "n": 3})
        created = await harness.emit("user.created", source="app", properties={"plan": "free"})

        async def found(*words: str, type: str | None = None, stream: str | None = None) -> list[str]:
            wanted = EventFilter(words=words, type=type, stream=stream)
            return [event.id for event in (await harness.store.events.find(wanted, None, 10)).items]

        assert await found("plan") == [created.id, placed.id]
        assert await found("plan=pro") == await found("n=3") == await found("order:1") == [placed.id]
        assert await found("order", "free") == []
        assert await found(created.id[:20]) == [created.id]
        assert await found("order", stream="order:1") == [placed.id]
        assert await found("order", type="user.created") == []

    async def test_an_event_is_found_by_the_beginning_of_its_id(self, harness: Harness) -> None:
        events = harness.store.events
        for id in ("evt_aaaaaaaaaa1", "evt_aaaaaaaaaa2", "evt_aaaaaaaaaa3", "evt_bbbbbbbbbb1"):
            await events.append([new_event("t", id=id)])
        assert await events.with_prefix("evt_bbbbbbbbbb") == ["evt_bbbbbbbbbb1"]
        assert await events.with_prefix("evt_aaaaaaaaaa") == ["evt_aaaaaaaaaa1", "evt_aaaaaaaaaa2"]
        assert await events.with_prefix("evt_c") == []

    async def test_an_event_is_found_by_its_dedup_key(self, harness: Harness) -> None:
        first = await harness.emit(dedup_key="k", source="shop")
        assert await harness.store.events.with_key("shop", "k") == first.id
        assert await harness.store.events.with_key("app", "k") is None

    async def test_seq_is_gapless_per_stream(self, harness: Harness) -> None:
        appended = [await harness.emit(stream=stream) for stream in ("a", "b", "a", "a", "b")]
        assert [(one.stream, one.seq) for one in appended] == [("a", 1), ("b", 1), ("a", 2), ("a", 3), ("b", 2)]

    async def test_concurrent_appends_to_one_stream_leave_no_gap(self, harness: Harness) -> None:
        appended = await asyncio.gather(*[harness.emit(stream="a") for _ in range(40)])
        assert sorted(one.seq for one in appended) == list(range(1, 41))
        assert [event.seq for event in await harness.store.events.read("a", 0, 100)] == list(range(1, 41))

    async def test_an_unkeyed_event_is_its_own_stream_with_seq_1(self, harness: Harness) -> None:
        one = await harness.emit()
        assert (one.stream, one.seq) == (one.id, 1)
        assert [event.id for event in await harness.store.events.read(one.id, 0, 10)] == [one.id]
        assert await harness.store.events.read(one.id, 1, 10) == []
        assert await harness.store.events.stream(one.id) is None

    async def test_an_event_is_kept_as_it_was_given(self, harness: Harness) -> None:
        given = {"deep": [1, 2.5, None, True, "é 🦑 \\u0000 '\";"], "big": 2**53 + 1}
        properties = {"project": "x", "n": 5, "tags": ["a", "b"], "none": None}
        one = await harness.emit(
            "order.placed",
            given,
            stream="order:42",
            source="shop",
            properties=properties,
            timestamp="2026-01-31T12:00:00+01:00",
            to="https://example.com/x",
        )
        event = await harness.store.events.get(one.id)
        assert event is not None
        assert (event.type, event.source, event.stream, event.seq) == ("order.placed", "shop", "order:42", 1)
        assert (event.payload, event.properties, event.to) == (given, properties, "https://example.com/x")
        assert event.timestamp == "2026-01-31T12:00:00+01:00"
        assert event.accepted_at_ms == harness.clock.now_ms()
        assert event.payload_json.encode() == new_event("t", given).payload

    async def test_a_timestamp_that_was_not_given_is_the_time_of_acceptance(self, harness: Harness) -> None:
        event = await harness.store.events.get((await harness.emit()).id)
        assert event is not None
        assert datetime.fromisoformat(event.timestamp) == datetime.fromtimestamp(harness.clock.now_ms() / 1000, UTC)

    async def test_ids_sort_by_time(self, harness: Harness) -> None:
        ids = []
        for _ in range(5):
            ids.append((await harness.emit()).id)
            harness.clock.advance(0.001)
        assert ids == sorted(ids)

    async def test_the_same_dedup_key_with_the_same_body_returns_the_first_event(self, harness: Harness) -> None:
        first = await harness.emit("t", {"a": 1}, stream="s", dedup_key="k")
        again = await harness.emit("t", {"a": 1}, stream="s", dedup_key="k")
        assert (again.id, again.seq, again.duplicate) == (first.id, 1, True)
        assert (await harness.emit(stream="s")).seq == 2
        assert len(await harness.store.events.read("s", 0, 10)) == 2

    async def test_the_first_of_a_dedup_key_is_no_duplicate(self, harness: Harness) -> None:
        assert (await harness.emit(dedup_key="k")).duplicate is False

    async def test_the_same_dedup_key_with_another_body_is_a_conflict_and_writes_nothing(
        self, harness: Harness
    ) -> None:
        await harness.emit("t", {"a": 1}, stream="s", dedup_key="k")
        for other in (
            new_event("t", {"a": 2}, stream="s", dedup_key="k"),
            new_event("u", {"a": 1}, stream="s", dedup_key="k"),
            new_event("t", {"a": 1}, stream="other", dedup_key="k"),
            new_event("t", {"a": 1}, stream="s", dedup_key="k", properties={"x": 1}),
        ):
            with pytest.raises(DedupConflict):
                await harness.store.events.append([other])
        assert [event.seq for event in await harness.store.events.read("s", 0, 10)] == [1]
        assert await harness.store.events.stream("other") is None

    async def test_a_conflict_does_not_affect_concurrent_appends(self, harness: Harness) -> None:
        await harness.emit("t", {"a": 1}, dedup_key="k")
        answers = await asyncio.gather(
            harness.emit(stream="s"),
            harness.emit("t", {"a": 2}, dedup_key="k"),
            harness.emit(stream="s"),
            return_exceptions=True,
        )
        assert isinstance(answers[1], DedupConflict)
        assert [event.seq for event in await harness.store.events.read("s", 0, 10)] == [1, 2]

    async def test_an_append_of_several_is_all_or_nothing(self, harness: Harness) -> None:
        await harness.emit("t", {"a": 1}, dedup_key="k")
        with pytest.raises(DedupConflict):
            await harness.store.events.append([new_event("t", stream="s"), new_event("t", {"a": 2}, dedup_key="k")])
        assert await harness.store.events.stream("s") is None
        assert (await harness.emit(stream="s")).seq == 1

    async def test_a_dedup_key_belongs_to_its_source(self, harness: Harness) -> None:
        here = await harness.emit("t", 1, source="here", dedup_key="k")
        there = await harness.emit("t", 2, source="there", dedup_key="k")
        assert here.id != there.id
        assert not there.duplicate

    async def test_the_same_key_twice_in_one_append_is_one_event(self, harness: Harness) -> None:
        event = new_event("t", 1, stream="s", dedup_key="k")
        first, again = await harness.store.events.append([event, event])
        assert (first.duplicate, again.duplicate, again.id) == (False, True, first.id)

    async def test_the_same_id_twice_is_appended_once(self, harness: Harness) -> None:
        first = await harness.emit(stream="s", id="evt_0")
        again = await harness.emit(stream="s", id="evt_0")
        assert (first.id, first.seq) == (again.id, again.seq) == ("evt_0", 1)
        assert (await harness.emit(stream="s")).seq == 2
        assert await harness.route() == 2

    async def test_the_same_id_is_appended_once_even_after_its_key_was_forgotten(self, harness: Harness) -> None:
        await harness.store.events.append([new_event("t") for _ in range(7)])
        first = await harness.emit(stream="s", id="evt_0", dedup_key="k")
        await harness.forget_keys()
        again = await harness.emit(stream="s", id="evt_0", dedup_key="k")
        assert (again.id, again.seq) == (first.id, first.seq)
        assert len(await harness.store.events.read("s", 0, 10)) == 1

    async def test_an_unknown_event_is_none(self, harness: Harness) -> None:
        assert await harness.store.events.get("evt_none") is None
        assert await harness.store.events.read("none", 0, 10) == []
        assert await harness.store.events.stream("none") is None

    async def test_read_starts_after_a_seq_and_is_bounded(self, harness: Harness) -> None:
        await harness.store.events.append([new_event("t", i, stream="s") for i in range(10)])
        assert [event.payload for event in await harness.store.events.read("s", 4, 3)] == [4, 5, 6]

    async def test_find_shows_the_newest_first_and_pages_to_the_end(self, harness: Harness) -> None:
        await harness.store.events.append([new_event("t", i) for i in range(25)])
        assert [event.payload for event in await self._find_all(harness, EventFilter(), 10)] == list(range(24, -1, -1))

    async def test_find_filters_by_source_type_and_stream(self, harness: Harness) -> None:
        for i in range(30):
            await harness.emit("even" if i % 2 == 0 else "odd", i, source=f"s{i % 3}", stream=f"x{i % 5}")
        found = await self._find_all(harness, EventFilter(type="even", source="s0"), 2)
        assert [event.payload for event in found] == [24, 18, 12, 6, 0]
        found = await self._find_all(harness, EventFilter(stream="x1"), 2)
        assert [event.payload for event in found] == [26, 21, 16, 11, 6, 1]
        found = await self._find_all(harness, EventFilter(stream="x1", type="odd"), 10)
        assert [event.payload for event in found] == [21, 11, 1]

    async def test_a_page_of_large_events_ends_at_its_size_limit(self, harness: Harness) -> None:
        """Whatever the limit, a page holds at most its byte limit plus one event, and no event is left out."""
        text = "é" * 450_000
        for i in range(20):
            await harness.emit("large" if i % 2 else "t", {"i": i, "text": text}, stream="s")
        for wanted, expected in (
            (EventFilter(), list(range(19, -1, -1))),
            (EventFilter(stream="s"), list(range(19, -1, -1))),
            (EventFilter(type="large"), list(range(19, 0, -2))),
        ):
            found: list[int] = []
            after: str | None = None
            while True:
                page = await harness.store.events.find(wanted, after, 1000)
                assert self._size_bytes(page.items[:-1]) < PAGE_BYTES_MAX
                found += [event.payload["i"] for event in page.items]
                if page.next is None:
                    break
                assert self._size_bytes(page.items) >= PAGE_BYTES_MAX
                after = page.next
            assert found == expected
        read: list[Event] = []
        while more := await harness.store.events.read("s", len(read), 1000):
            assert self._size_bytes(more[:-1]) < PAGE_BYTES_MAX
            read += more
        assert [event.payload["i"] for event in read] == list(range(20))

    async def test_streams_are_listed_with_their_heads(self, harness: Harness) -> None:
        for name in ("b", "a", "b", "c"):
            await harness.emit(stream=name)
        page = await harness.store.events.streams(None, 2)
        rest = await harness.store.events.streams(page.next, 2)
        assert [(row.id, row.head) for row in page.items + rest.items] == [("a", 1), ("b", 2), ("c", 1)]
        row = await harness.store.events.stream("b")
        assert row is not None
        assert (row.head, row.created_at_ms, row.closed_at_ms) == (2, harness.clock.now_ms(), None)

    async def test_a_wall_clock_that_steps_back_does_not_change_the_order_of_a_stream(self, harness: Harness) -> None:
        for i in range(4):
            await harness.emit("t", i, stream="s")
            harness.clock.step_wall(-3600)
        assert [event.payload for event in await harness.store.events.read("s", 0, 10)] == [0, 1, 2, 3]

    async def test_an_accepted_event_survives_a_crash(self, harness: Harness) -> None:
        appended = await harness.emit(stream="s")
        await harness.crash()
        assert await harness.store.events.get(appended.id) is not None
        assert (await harness.emit(stream="s")).seq == 2

    async def test_a_listener_is_called_after_an_append_is_committed(self, harness: Harness) -> None:
        topics: list[str] = []
        harness.store.on_change(topics.append)
        await harness.emit()
        assert "events" in topics

    def _size_bytes(self, events: list[Event]) -> int:
        return sum(len(event.payload_json.encode()) for event in events)

    async def _find_all(self, harness: Harness, wanted: EventFilter, limit: int) -> list[Event]:
        found: list[Event] = []
        after: str | None = None
        while True:
            page = await harness.store.events.find(wanted, after, limit)
            assert len(page.items) <= limit
            found += page.items
            if page.next is None:
                return found
            after = page.next
