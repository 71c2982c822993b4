"""Live views on a store: heartbeats, no work without clients, and commits of other processes on PostgreSQL."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from holdfast.domain.errors import Conflict, TooMany
from holdfast.domain.event import new_event
from holdfast.operations.answers.events import event_json
from holdfast.store.open import open_store
from holdfast.store.roles.store import Store
from holdfast.streams import ring as ring_module
from holdfast.streams.feed import FeedFilter
from holdfast.streams.live import HEARTBEAT_S, LiveViews, View
from postgres import Server, opened

pytest_plugins = ("postgres",)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    store = open_store(f"sqlite:///{tmp_path}/live.db", keep=True)
    yield store
    await store.close()


async def append(store: Store, count: int, stream: str = "s") -> None:
    for _ in range(count):
        await store.events.append([new_event("t", {"text": "x"}, stream=stream)])


async def take(live: LiveViews, view: View, count: int) -> list[int]:
    """The next seqs. The duty runs as the background loop would run it."""
    seqs: list[int] = []
    async with asyncio.timeout(60):
        while len(seqs) < count:
            following = asyncio.ensure_future(anext(view.items))
            while not following.done():
                await live.tick()
                await asyncio.sleep(0.001)
            batch = following.result()
            seqs += [] if batch is None else [entry.event.seq for entry in batch.entries]
    return seqs


async def test_clients_at_the_same_position_get_the_same_bytes(store: Store) -> None:
    live = LiveViews(store, event_json)
    await append(store, 1)
    views = [await live.tail("s", 1, False) for _ in range(3)]
    waiting = [asyncio.ensure_future(anext(view.items)) for view in views]
    while live.clients < 3:
        await asyncio.sleep(0)
    await append(store, 2)
    await live.tick()
    batches = await asyncio.gather(*waiting)
    assert len({id(batch) for batch in batches}) == 1
    assert batches[0] is not None
    assert batches[0].sse.count(b"data: ") == 2
    for view in views:
        await view.items.aclose()
    assert live.clients == 0


async def test_a_client_behind_the_ring_reads_from_the_store(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ring_module, "ENTRIES_MAX", 5)
    live = LiveViews(store, event_json)
    await append(store, 3)
    slow, fast = await live.tail("s", 0, False), await live.tail("s", 0, False)
    assert await take(live, slow, 3) == [1, 2, 3]
    assert await take(live, fast, 3) == [1, 2, 3]
    await append(store, 40)
    assert await take(live, fast, 40) == list(range(4, 44))
    assert await take(live, slow, 40) == list(range(4, 44))


async def test_what_a_client_of_the_feed_read_from_the_store_does_not_come_again_from_the_ring(store: Store) -> None:
    live = LiveViews(store, event_json)
    await append(store, 1)
    first, second = await live.all_events(None, FeedFilter()), await live.all_events(None, FeedFilter(type="t"))
    waiting = asyncio.ensure_future(anext(first.items))
    while not live.clients:
        await asyncio.sleep(0.001)
    await append(store, 2)
    read = await anext(second.items)  # from the store: the duty has not put them into the ring yet
    assert read is not None
    assert [entry.event.seq for entry in read.entries] == [2, 3]
    await live.tick()
    ringed = await waiting
    assert ringed is not None
    assert [entry.event.seq for entry in ringed.entries] == [2, 3]
    later = asyncio.ensure_future(anext(second.items))
    await asyncio.sleep(0.05)
    assert not later.done(), "the ring holds only what was read"
    await append(store, 2)
    assert await take(live, first, 2) == [4, 5]
    after = await later
    assert after is not None
    assert [entry.event.seq for entry in after.entries] == [4, 5]
    await append(store, 1)
    assert await take(live, second, 1) == await take(live, first, 1) == [6]
    for view in (first, second):
        await view.items.aclose()


async def test_heartbeats_come_every_fifteen_seconds_and_nothing_runs_without_clients(store: Store) -> None:
    now_s = 1000.0
    live = LiveViews(store, event_json, lambda: now_s)
    assert await live.tick() is None, "no client, no work"
    await append(store, 1)
    tail, feed = await live.tail("s", 1, False), await live.all_events(None, FeedFilter())
    waiting = [asyncio.ensure_future(anext(view.items)) for view in (tail, feed)]
    while live.clients < 2:
        await asyncio.sleep(0.001)
    now_s += HEARTBEAT_S - 1
    assert await live.tick() is not None
    await asyncio.sleep(0.01)
    assert not any(one.done() for one in waiting)
    now_s += 1
    await live.tick()
    assert await asyncio.gather(*waiting) == [None, None]
    for view in (tail, feed):
        await view.items.aclose()
    assert await live.tick() is None


async def test_a_stream_that_is_removed_and_begins_again_is_an_error(store: Store) -> None:
    live = LiveViews(store, event_json)
    await append(store, 5)
    view = await live.tail("s", 5, False)
    waiting = asyncio.ensure_future(anext(view.items))
    while not live.clients:
        await asyncio.sleep(0.001)
    heads = live.tails._feed.heads

    async def removed(streams: object) -> dict[str, object]:
        return {}

    live.tails._feed.heads = removed  # type: ignore[method-assign,assignment]
    await live.tick()
    live.tails._feed.heads = heads  # type: ignore[method-assign]
    with pytest.raises(Conflict, match="began again"):
        await waiting


async def test_the_number_of_live_views_is_limited(store: Store) -> None:
    live = LiveViews(store, event_json)
    live.clients_max = 1
    await append(store, 1)
    view = await live.tail("s", 0, False)
    await anext(view.items)
    with pytest.raises(TooMany, match="1 live views"):
        await live.tail("s", 0, False)
    await view.items.aclose()
    await (await live.tail("s", 0, False)).items.aclose()


async def test_stopping_ends_every_view_and_says_that_it_is_not_complete(store: Store) -> None:
    live = LiveViews(store, event_json)
    await append(store, 1)
    view = await live.tail("s", 1, False)
    waiting = asyncio.ensure_future(anext(view.items))
    while not live.clients:
        await asyncio.sleep(0.001)
    live.stop()
    with contextlib.suppress(StopAsyncIteration):
        await waiting
    assert not view.is_complete()


async def test_events_of_another_process_on_postgresql_are_followed(server: Server, schema: str) -> None:
    async with opened(server, schema) as store, opened(server, schema) as other:
        live = LiveViews(store, event_json)
        await append(other, 2)
        tail, feed = await live.tail("s", None, False), await live.all_events(None, FeedFilter(stream="s"))
        assert await take(live, tail, 2) == [1, 2]
        await append(other, 3)
        await append(other, 2, "elsewhere")
        assert await take(live, tail, 3) == [3, 4, 5]
        assert await take(live, feed, 3) == [3, 4, 5]
        await tail.items.aclose()
        await feed.items.aclose()
