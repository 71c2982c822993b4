"""The feed on PostgreSQL with overlapping transactions: an event that commits late is read, and read once."""

from __future__ import annotations

import asyncpg
import pytest

from holdfast.domain.event import new_event
from holdfast.store.postgres import feed as feed_module
from holdfast.store.roles.feed import FeedPosition
from postgres import Server, opened

pytest_plugins = ("postgres",)


async def test_an_event_that_commits_late_is_read_after_those_that_overtook_it(server: Server, schema: str) -> None:
    async with opened(server, schema) as store:
        position = await store.feed.newest()
        connection = await asyncpg.connect(server.address)
        transaction = connection.transaction()
        await transaction.start()
        await connection.execute(f"SELECT {schema}.publish('late')")
        ids = [(await store.events.append([new_event("t")]))[0].id for _ in range(3)]
        page = await store.feed.visible(position, 100)
        assert [event.id for event in page.events] == ids
        for _ in range(5):
            page = await store.feed.visible(page.position, 100)
            assert page.events == []
        low = page.position.low
        await transaction.commit()
        page = await store.feed.visible(page.position, 100)
        assert [event.type for event in page.events] == ["late"]
        resumed = await store.feed.visible(FeedPosition(low), 100)
        assert {event.type for event in resumed.events} == {"t", "late"}, "a resume repeats rather than skips"
        for _ in range(5):
            page = await store.feed.visible(page.position, 100)
        assert page.events == []
        assert (await store.feed.visible(FeedPosition(page.position.low), 100)).events == []
        await connection.close()


async def test_what_a_feed_remembers_is_bounded(server: Server, schema: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed_module, "SEEN_MAX", 50)
    async with opened(server, schema) as store:
        page = await store.feed.visible(await store.feed.newest(), 10)
        connection = await asyncpg.connect(server.address)
        async with connection.transaction():
            await connection.execute(f"SELECT {schema}.publish('late')")
            seen = []
            for _ in range(20):
                await store.events.append([new_event("t") for _ in range(10)])
                page = await store.feed.visible(page.position, 100)
                seen += [event.id for event in page.events]
                assert len(page.position.seen) <= 50
        assert len(seen) == len(set(seen)) == 200
        await connection.close()
