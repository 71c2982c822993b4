"""The same promises on connections that are awaited, against real SQLite files."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiosqlite
import pytest
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

from holdfast import Outbox
from holdfast.domain.errors import DedupConflict, StoreMissing, StreamClosed


class Aiosqlite:
    @classmethod
    async def open(cls, path: Path) -> Any:
        made = cls()
        made.raw = made.handle = await aiosqlite.connect(path)
        return made

    @contextlib.asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        try:
            yield
        except BaseException:
            await self.raw.rollback()
            raise
        await self.raw.commit()

    @contextlib.asynccontextmanager
    async def savepoint(self) -> AsyncIterator[None]:
        await self.execute("SAVEPOINT inner")
        try:
            yield
        except BaseException:
            await self.execute("ROLLBACK TO inner")
            raise
        finally:
            await self.execute("RELEASE inner")

    async def execute(self, sql: str) -> None:
        await self.raw.execute(sql)

    async def close(self) -> None:
        await self.raw.close()


class AiosqliteWithRows(Aiosqlite):
    @classmethod
    async def open(cls, path: Path) -> Any:
        made = await super().open(path)
        made.raw.row_factory = lambda cursor, row: {"row": row}
        return made


class AlchemyConnection(Aiosqlite):
    @classmethod
    async def open(cls, path: Path) -> Any:
        made = cls()
        made.engine = create_async_engine(f"sqlite+aiosqlite:///{path}")
        made.raw = made.handle = await cls.connect(made.engine)
        return made

    @staticmethod
    async def connect(engine: Any) -> Any:
        return await engine.connect()

    @contextlib.asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        async with self.raw.begin():
            yield

    @contextlib.asynccontextmanager
    async def savepoint(self) -> AsyncIterator[None]:
        async with self.raw.begin_nested():
            yield

    async def execute(self, sql: str) -> None:
        await self.raw.execute(sa.text(sql))

    async def close(self) -> None:
        await self.raw.close()
        await self.engine.dispose()


class AlchemySession(AlchemyConnection):
    @staticmethod
    async def connect(engine: Any) -> Any:
        return AsyncSession(engine)


KINDS = [Aiosqlite, AiosqliteWithRows, AlchemyConnection, AlchemySession]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "app.db"


@pytest.fixture
def outbox(path: Path) -> Outbox:
    box = Outbox(f"sqlite:///{path}")
    box.migrate()
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY)")
        connection.commit()
    return box


@pytest.fixture(params=KINDS, ids=lambda kind: kind.__name__)
async def client(request: pytest.FixtureRequest, outbox: Outbox, path: Path) -> AsyncIterator[Any]:
    made = await request.param.open(path)
    yield made
    await made.close()


def events(path: Path) -> list[tuple[str, str | None, int]]:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return connection.execute("SELECT type, stream, seq FROM holdfast_events ORDER BY n").fetchall()


def orders(path: Path) -> int:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return int(connection.execute("SELECT count(*) FROM orders").fetchone()[0])


async def test_a_commit_keeps_the_row_and_exactly_one_event(outbox: Outbox, client: Any, path: Path) -> None:
    async with client.transaction():
        await client.execute("INSERT INTO orders VALUES (42)")
        await outbox.publish_async(client.handle, "order.placed", {"id": 42}, stream="order:42")
        assert events(path) == []
    assert (events(path), orders(path)) == ([("order.placed", "order:42", 1)], 1)


async def test_an_exception_leaves_neither(outbox: Outbox, client: Any, path: Path) -> None:
    with contextlib.suppress(ZeroDivisionError):
        async with client.transaction():
            await client.execute("INSERT INTO orders VALUES (42)")
            await outbox.publish_async(client.handle, "order.placed", {"id": 42})
            raise ZeroDivisionError
    assert (events(path), orders(path)) == ([], 0)


async def test_a_connection_closed_before_its_commit_leaves_neither(outbox: Outbox, client: Any, path: Path) -> None:
    await client.execute("INSERT INTO orders VALUES (42)")
    await outbox.publish_async(client.handle, "order.placed", {"id": 42})
    await client.close()
    assert (events(path), orders(path)) == ([], 0)


async def test_a_savepoint_takes_its_event_with_it(outbox: Outbox, client: Any, path: Path) -> None:
    async with client.transaction():
        await client.execute("INSERT INTO orders VALUES (42)")
        await outbox.publish_async(client.handle, "kept", stream="s")
        with contextlib.suppress(ZeroDivisionError):
            async with client.savepoint():
                await outbox.publish_async(client.handle, "undone", stream="s")
                raise ZeroDivisionError
        await outbox.publish_async(client.handle, "kept.too", stream="s")
    assert events(path) == [("kept", "s", 1), ("kept.too", "s", 2)]


async def test_a_retry_after_an_unacknowledged_commit_returns_the_first_event(
    outbox: Outbox, client: Any, path: Path
) -> None:
    answers = []
    for _ in range(2):
        async with client.transaction():
            answers.append(await outbox.publish_async(client.handle, "order.placed", {"id": 42}, dedup="order-42"))
    first, again = answers
    assert (again.id, first.duplicate, again.duplicate) == (first.id, False, True)
    assert len(events(path)) == 1


async def test_the_doors_errors_are_ours(outbox: Outbox, client: Any, tmp_path: Path) -> None:
    async with client.transaction():
        await outbox.publish_async(client.handle, "first", stream="s", dedup="k")
        with pytest.raises(DedupConflict):
            await outbox.publish_async(client.handle, "other", stream="s", dedup="k")
        await client.execute("UPDATE holdfast_streams SET closed_at = 1")
        with pytest.raises(StreamClosed):
            await outbox.publish_async(client.handle, "second", stream="s")
    bare = await type(client).open(tmp_path / "bare.db")
    with pytest.raises(StoreMissing, match="migrate"):
        await outbox.publish_async(bare.handle, "x")
    await bare.close()


async def test_many_are_appended_by_stream_and_answered_in_the_order_given(
    outbox: Outbox, client: Any, path: Path
) -> None:
    async with client.transaction():
        answers = await outbox.publish_many_async(
            client.handle, [{"type": "b", "stream": "b"}, {"type": "a", "stream": "a"}]
        )
    assert [row[0] for row in events(path)] == ["a", "b"]
    assert len({answer.id for answer in answers}) == 2
