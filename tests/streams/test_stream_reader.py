"""A reader inside an application: its position is committed with its own rows, or not at all."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3

import asyncpg
import pytest

from holdfast import Conflict, Outbox, PositionPruned
from holdfast.domain.event import new_event
from holdfast.domain.retry import POLICIES
from holdfast.routing.registry import Registry
from holdfast.routing.router import Router
from holdfast.store.open import migrate_store, open_store
from holdfast.store.roles.maintenance import Retention
from holdfast.store.roles.owners import Owner
from holdfast.store.roles.readers import NewEvents
from postgres import end_schema, fresh_schema, newest, start

pytest_plugins = ("postgres",)

LIMIT_S = 60.0


class Application:
    """A daemon's router beside an application that counts the events of each stream."""

    def __init__(self, url, folder) -> None:
        self.url, self.folder, self.outbox = url, folder, Outbox(url)

    async def start(self) -> None:
        self.store = open_store(self.url, driver="sqlite3", own=False, create=True)
        self.router = Router(self.store.routing, Registry(self.store.contracts, POLICIES, readers=self.store.readers))
        self.connection = await self.connect()
        await self.execute("CREATE TABLE counted (stream TEXT, seq BIGINT)")

    async def append(self, *streams: str) -> None:
        await self.store.events.append([new_event("t", stream=stream) for stream in streams])
        while await self.router.tick() is not None:
            pass

    async def connect(self):
        raise NotImplementedError

    async def close(self) -> None:
        await self.store.close()


class OnSqlite(Application):
    async def connect(self):
        return sqlite3.connect(f"{self.folder}/app.db")

    async def execute(self, sql: str) -> None:
        self.connection.execute(sql)

    async def count(self, reader, event, fail: bool = False) -> None:
        with self.connection:
            self.connection.execute("INSERT INTO counted VALUES (?, ?)", (event.stream, event.seq))
            reader.advance(self.connection, event)
            if fail:
                raise RuntimeError("the application failed")

    async def counted(self):
        return list(self.connection.execute("SELECT stream, seq FROM counted"))

    async def close(self) -> None:
        self.connection.close()
        await super().close()


class OnPostgres(Application):
    async def connect(self):
        return await asyncpg.connect(self.folder)

    async def execute(self, sql: str) -> None:
        await self.connection.execute(sql.replace("TABLE", "TEMP TABLE"))

    async def count(self, reader, event, fail: bool = False) -> None:
        async with self.connection.transaction():
            await self.connection.execute("INSERT INTO counted VALUES ($1, $2)", event.stream, event.seq)
            await reader.advance_async(self.connection, event)
            if fail:
                raise RuntimeError("the application failed")

    async def counted(self):
        return [tuple(row) for row in await self.connection.fetch("SELECT stream, seq FROM counted")]

    async def close(self) -> None:
        await self.connection.close()
        await super().close()


@pytest.fixture(params=["sqlite", "postgres"])
async def application(request, tmp_path):
    if request.param == "sqlite":
        made = OnSqlite(f"sqlite:///{tmp_path}/app.db", tmp_path)
        migrate_store(made.url, own=False, driver="sqlite3")
        await made.start()
        yield made
        await made.close()
        return
    server, schema = start(newest()), fresh_schema()
    made = OnPostgres(server.url(schema), server.address)
    await made.start()
    yield made
    await made.close()
    await end_schema(server, schema)


async def test_events_come_in_order_and_are_counted_once(application):
    await application.append("run:1", "run:1", "run:2", "other")
    await _read(application, 3)
    await application.append("run:1", "run:3")
    await _read(application, 5)
    counted = await application.counted()
    assert [seq for stream, seq in counted if stream == "run:1"] == [1, 2, 3]
    assert sorted({stream for stream, _ in counted}) == ["run:1", "run:2", "run:3"]


async def test_a_rolled_back_event_comes_again(application):
    await application.append("run:1", "run:1")
    reader = application.outbox.read("totals", "run:*")
    async with contextlib.aclosing(aiter(reader)) as events:
        await application.count(reader, await anext(events))
        second = await anext(events)
        with pytest.raises(RuntimeError):
            await application.count(reader, second, fail=True)
    assert await application.counted() == [("run:1", 1)]
    await _read(application, 2)
    assert await application.counted() == [("run:1", 1), ("run:1", 2)]


async def test_a_process_that_lost_its_stream_cannot_commit(application):
    await application.append("run:1")
    reader = application.outbox.read("totals", "run:*")
    async with contextlib.aclosing(aiter(reader)) as events:
        event = await asyncio.wait_for(anext(events), LIMIT_S)
        await application.store.cursors.advance("totals", "run:1", 1)  # another process was faster
        with pytest.raises(Conflict):
            await application.count(reader, event)
    assert await application.counted() == []


async def test_two_processes_share_the_streams_of_one_reader(application):
    await application.append("run:1", "run:2")
    one, two = (aiter(application.outbox.read("totals", "run:*")) for _ in range(2))
    first = await asyncio.wait_for(anext(one), LIMIT_S)
    second = await asyncio.wait_for(anext(two), LIMIT_S)
    assert {first.stream, second.stream} == {"run:1", "run:2"}
    await one.aclose()
    await two.aclose()


async def test_a_position_that_was_pruned_is_an_error(application):
    await application.append("run:1", "run:1")
    await application.store.readers.register([application.outbox.read("totals", "run:*")._reader])
    await application.store.readers.survey("totals")
    await application.store.cursors.expire(1 << 60, 10)
    await asyncio.sleep(0.01)
    nothing_kept, by = Retention(0, 0, 0, 0), Owner(0, "none").acting("retention")
    assert (await application.store.maintenance.prune(nothing_kept, 100, by))["events"] == 2
    await application.append("run:1")
    await application.store.readers.mark([NewEvents("totals", "run:1", 3, 3, 0)])
    with pytest.raises(PositionPruned) as caught:
        await asyncio.wait_for(anext(aiter(application.outbox.read("totals", "run:*"))), LIMIT_S)
    assert (caught.value.position, caught.value.first_seq) == (0, 3)


async def _read(application, total: int) -> None:
    """Count until the application has counted so many events."""
    reader = application.outbox.read("totals", "run:*")
    async with asyncio.timeout(LIMIT_S), contextlib.aclosing(aiter(reader)) as events:
        async for event in events:
            await application.count(reader, event)
            if len(await application.counted()) == total:
                return
