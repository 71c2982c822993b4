"""Feed: heads of streams in one read, and every event once, in the order in which it becomes visible."""

from __future__ import annotations

import asyncio

from holdfast.domain.event import Event
from holdfast.store.roles.feed import FeedPosition
from holdfast.store.roles.page import PAGE_BYTES_MAX
from holdfast.testing.suite.harness import Harness, StoreSuite


class FeedSuite(StoreSuite):
    async def test_heads_are_those_of_the_streams_that_exist(self, harness: Harness) -> None:
        for stream in ("a", "b", "a"):
            await harness.emit(stream=stream)
        heads = await harness.store.feed.heads(["a", "b", "none", "it's"])
        assert {name: row.head for name, row in heads.items()} == {"a": 2, "b": 1}
        assert heads["a"] == await harness.store.events.stream("a")
        assert await harness.store.feed.heads([]) == {}

    async def test_the_feed_begins_with_what_is_appended_next(self, harness: Harness) -> None:
        assert (await harness.store.feed.visible(await harness.store.feed.newest(), 10)).events == []
        await harness.emit()
        position = await harness.store.feed.newest()
        appended = [await harness.emit(stream=stream) for stream in ("a", None, "b")]
        events, _ = await read_all(harness, position)
        assert [(event.id, event.stream, event.seq) for event in events] == [one[:3] for one in appended]

    async def test_every_event_is_read_once_in_pages(self, harness: Harness) -> None:
        position = await harness.store.feed.newest()
        appended = [(await harness.emit()).id for _ in range(7)]
        events, position = await read_all(harness, position, limit=3)
        assert [event.id for event in events] == appended
        appended = [(await harness.emit()).id for _ in range(2)]
        events, position = await read_all(harness, position, limit=3)
        assert [event.id for event in events] == appended

    async def test_concurrent_appends_are_all_read(self, harness: Harness) -> None:
        position = await harness.store.feed.newest()
        appended = await asyncio.gather(*[harness.emit(stream=f"s{number % 3}") for number in range(40)])
        events, _ = await read_all(harness, position)
        assert sorted(event.id for event in events) == sorted(one.id for one in appended)
        for stream in ("s0", "s1", "s2"):
            seqs = [event.seq for event in events if event.stream == stream]
            assert seqs == sorted(seqs)

    async def test_a_feed_resumes_from_its_low_number(self, harness: Harness) -> None:
        position = await harness.store.feed.newest()
        first = [(await harness.emit()).id for _ in range(3)]
        _, position = await read_all(harness, position)
        for _ in range(3):  # without open transactions nothing is repeated after a few reads
            position = (await harness.store.feed.visible(position, 10)).position
        more = [(await harness.emit()).id for _ in range(2)]
        events, _ = await read_all(harness, FeedPosition(position.low))
        assert [event.id for event in events] == more
        events, _ = await read_all(harness, FeedPosition(0))
        assert [event.id for event in events] == first + more

    async def test_a_page_of_the_feed_is_bounded_in_bytes(self, harness: Harness) -> None:
        position = await harness.store.feed.newest()
        for _ in range(12):
            await harness.emit(payload="x" * 1_000_000)
        page = await harness.store.feed.visible(position, 100)
        assert 1 <= len(page.events) <= PAGE_BYTES_MAX // 1_000_000 + 1
        events, _ = await read_all(harness, position)
        assert len(events) == 12


async def read_all(harness: Harness, position: FeedPosition, limit: int = 100) -> tuple[list[Event], FeedPosition]:
    events: list[Event] = []
    while True:
        page = await harness.store.feed.visible(position, limit)
        if not page.events:
            return events, position
        events += page.events
        position = page.position
