"""The same promises on every connection an application may have to PostgreSQL, against a real server."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from typing import Any

import asyncpg
import psycopg
import pytest
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from holdfast import DedupConflict, Outbox, StreamClosed
from holdfast.domain.errors import StoreMissing
from postgres import Server, fresh_schema, oldest_and_newest, start


class Psycopg:
    """One kind of connection, spoken to with `await` whether it blocks or not."""

    blocks = True

    async def open(self, server: Server) -> None:
        self.handle = self.raw = psycopg.connect(f"host={server.folder} user=postgres dbname=postgres")

    async def execute(self, sql: str) -> None:
        self.raw.execute(sql)

    async def commit(self) -> None:
        self.raw.commit()

    async def rollback(self) -> None:
        self.raw.rollback()

    async def close(self) -> None:
        self.raw.close()

    @contextlib.asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        try:
            yield
        except BaseException:
            await self.rollback()
            raise
        await self.commit()

    async def publish(self, outbox: Outbox, *arguments: Any, **fields: Any) -> Any:
        if self.blocks:
            return outbox.publish(self.handle, *arguments, **fields)
        return await outbox.publish_async(self.handle, *arguments, **fields)

    async def publish_many(self, outbox: Outbox, events: list[dict[str, Any]]) -> Any:
        if self.blocks:
            return outbox.publish_many(self.handle, events)
        return await outbox.publish_many_async(self.handle, events)

    async def once(self, outbox: Outbox, event_id: str, error: Exception | None = None) -> bool:
        if self.blocks:
            with outbox.once(self.handle, event_id, consumer="billing") as first:
                return _or_raise(first, error)
        async with outbox.once(self.handle, event_id, consumer="billing") as first:
            return _or_raise(first, error)


def _or_raise(first: bool, error: Exception | None) -> bool:
    if error is not None:
        raise error
    return first


class PsycopgDictRows(Psycopg):
    async def open(self, server: Server) -> None:
        await super().open(server)
        self.raw.row_factory = psycopg.rows.dict_row


class PsycopgCursor(Psycopg):
    async def open(self, server: Server) -> None:
        await super().open(server)
        self.handle = self.raw.cursor()


class PsycopgRawCursors(Psycopg):
    """Its cursors write parameters as $1."""

    async def open(self, server: Server) -> None:
        await super().open(server)
        self.raw.cursor_factory = psycopg.RawCursor


class PsycopgPipeline(Psycopg):
    """In pipeline mode a statement has no answer until one asks for it."""

    async def open(self, server: Server) -> None:
        await super().open(server)
        self.pipeline = self.raw.pipeline()
        self.pipeline.__enter__()

    async def close(self) -> None:
        if not self.raw.closed:
            self.raw.rollback()
            self.pipeline.__exit__(None, None, None)
        await super().close()


class AlchemyConnection(Psycopg):
    async def open(self, server: Server) -> None:
        self.engine = sa.create_engine(f"postgresql+psycopg://postgres@/postgres?host={server.folder}")
        self.handle = self.raw = self.made()

    def made(self) -> Any:
        return self.engine.connect()

    async def execute(self, sql: str) -> None:
        self.raw.execute(sa.text(sql))

    async def close(self) -> None:
        self.raw.close()
        self.engine.dispose()


class AlchemySession(AlchemyConnection):
    def made(self) -> Any:
        return Session(self.engine)


class PsycopgAsync(Psycopg):
    blocks = False

    async def open(self, server: Server) -> None:
        dsn = f"host={server.folder} user=postgres dbname=postgres"
        self.handle = self.raw = await psycopg.AsyncConnection.connect(dsn)

    async def execute(self, sql: str) -> None:
        await self.raw.execute(sql)

    async def commit(self) -> None:
        await self.raw.commit()

    async def rollback(self) -> None:
        await self.raw.rollback()

    async def close(self) -> None:
        await self.raw.close()


class PsycopgAsyncRawPipeline(PsycopgAsync):
    async def open(self, server: Server) -> None:
        await super().open(server)
        self.raw.cursor_factory = psycopg.AsyncRawCursor
        self.pipeline = self.raw.pipeline()
        await self.pipeline.__aenter__()

    async def close(self) -> None:
        if not self.raw.closed:
            await self.raw.rollback()
            await self.pipeline.__aexit__(None, None, None)
        await super().close()


class Asyncpg(PsycopgAsync):
    async def open(self, server: Server) -> None:
        self.handle = self.raw = await server.connect()

    @contextlib.asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        async with self.handle.transaction():
            yield

    async def execute(self, sql: str) -> None:
        await self.handle.execute(sql)


class AsyncpgPool(Asyncpg):
    async def open(self, server: Server) -> None:
        dsn = f"postgresql://postgres@/postgres?host={server.folder}"
        self.pool = await asyncpg.create_pool(dsn, min_size=1, max_size=2)
        self.handle = await self.pool.acquire()

    async def close(self) -> None:
        self.pool.terminate()


class AsyncpgRecords(Asyncpg):
    """The application's own rows, which are like their keys."""

    async def open(self, server: Server) -> None:
        self.handle = self.raw = await asyncpg.connect(server.address, record_class=Keys, statement_cache_size=0)


class Keys(asyncpg.Record):
    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())


class AlchemyAsyncpg(PsycopgAsync):
    driver = "asyncpg"

    async def open(self, server: Server) -> None:
        self.engine = create_async_engine(f"postgresql+{self.driver}://postgres@/postgres?host={server.folder}")
        self.handle = self.raw = await self.made()

    async def made(self) -> Any:
        return await self.engine.connect()

    async def execute(self, sql: str) -> None:
        await self.raw.execute(sa.text(sql))

    async def close(self) -> None:
        await self.raw.close()
        await self.engine.dispose()


class AlchemyAsyncSession(AlchemyAsyncpg):
    async def made(self) -> Any:
        return AsyncSession(self.engine)


class AlchemyPsycopgAsync(AlchemyAsyncpg):
    driver = "psycopg"


KINDS = [
    Psycopg, PsycopgDictRows, PsycopgCursor, PsycopgRawCursors, PsycopgPipeline, AlchemyConnection, AlchemySession,
    PsycopgAsync, PsycopgAsyncRawPipeline, Asyncpg, AsyncpgPool, AsyncpgRecords,
    AlchemyAsyncpg, AlchemyAsyncSession, AlchemyPsycopgAsync,
]  # fmt: skip


@pytest.fixture(scope="module", params=oldest_and_newest())
def server(request: pytest.FixtureRequest) -> Server:
    return start(str(request.param))


@pytest.fixture(scope="module")
def prepared(server: Server) -> Iterator[Outbox]:
    """One schema for all of these tests, with another name than the usual one."""
    schema = fresh_schema()
    outbox = Outbox(server.url(schema))
    outbox.migrate()
    server.psql(f"CREATE TABLE {schema}.orders (id int PRIMARY KEY);")
    yield outbox
    server.psql(f"DROP SCHEMA {schema} CASCADE;")


class Book:
    """What another session sees."""

    def __init__(self, server: Server, schema: str) -> None:
        self._server, self.schema = server, schema

    def rows(self, query: str) -> list[str]:
        done = self._server.psql(query.format(schema=self.schema))
        assert done.returncode == 0, done.stderr
        return done.stdout.split()

    def events(self) -> list[str]:
        return self.rows("SELECT type || '|' || coalesce(stream, '') || '|' || seq FROM {schema}.events ORDER BY n;")

    def orders(self) -> int:
        return int(self.rows("SELECT count(*) FROM {schema}.orders;")[0])


@pytest.fixture
def book(prepared: Outbox, server: Server) -> Iterator[Book]:
    book = Book(server, prepared._schema)
    yield book
    tables = ", ".join(
        f"{book.schema}.{name}" for name in ("events", "streams", "dedup", "unrouted", "inbox", "orders")
    )
    book.rows(f"TRUNCATE {tables};")


@pytest.fixture(params=KINDS, ids=lambda kind: kind.__name__)
async def client(request: pytest.FixtureRequest, server: Server, book: Book) -> AsyncIterator[Psycopg]:
    made = request.param()
    await made.open(server)
    yield made
    await made.close()


@pytest.fixture
def outbox(prepared: Outbox) -> Outbox:
    return prepared


async def test_a_commit_keeps_the_row_and_exactly_one_event(outbox: Outbox, client: Psycopg, book: Book) -> None:
    async with client.transaction():
        await client.execute(f"INSERT INTO {book.schema}.orders VALUES (42)")
        published = await client.publish(outbox, "order.placed", {"id": 42}, stream="order:42")
        assert book.events() == []
    assert (book.events(), book.orders()) == (["order.placed|order:42|1"], 1)
    assert book.rows("SELECT id FROM {schema}.events;") == [published.id]


async def test_an_exception_leaves_neither(outbox: Outbox, client: Psycopg, book: Book) -> None:
    with contextlib.suppress(ZeroDivisionError):
        async with client.transaction():
            await client.execute(f"INSERT INTO {book.schema}.orders VALUES (42)")
            await client.publish(outbox, "order.placed", {"id": 42}, stream="order:42")
            raise ZeroDivisionError
    assert (book.events(), book.orders()) == ([], 0)


async def test_a_connection_closed_before_its_commit_leaves_neither(
    outbox: Outbox, client: Psycopg, book: Book
) -> None:
    if isinstance(client, Asyncpg):
        await client.execute("BEGIN")
    await client.execute(f"INSERT INTO {book.schema}.orders VALUES (42)")
    await client.publish(outbox, "order.placed", {"id": 42}, stream="order:42")
    await client.close()
    assert (book.events(), book.orders()) == ([], 0)


async def test_a_savepoint_takes_its_event_with_it(outbox: Outbox, client: Psycopg, book: Book) -> None:
    async with client.transaction():
        await client.publish(outbox, "kept", stream="s")
        await client.execute("SAVEPOINT inner_one")
        await client.publish(outbox, "undone", stream="s")
        await client.execute("ROLLBACK TO SAVEPOINT inner_one")
        await client.publish(outbox, "kept.too", stream="s")
    assert book.events() == ["kept|s|1", "kept.too|s|2"]


async def test_a_retry_after_an_unacknowledged_commit_returns_the_first_event(
    outbox: Outbox, client: Psycopg, book: Book
) -> None:
    answers = []
    for _ in range(2):
        async with client.transaction():
            answers.append(await client.publish(outbox, "order.placed", {"id": 42}, stream="s", dedup="order-42"))
    first, again = answers
    assert (again.id, first.duplicate, again.duplicate) == (first.id, False, True)
    assert book.events() == ["order.placed|s|1"]


async def test_the_doors_errors_are_ours(outbox: Outbox, client: Psycopg, book: Book) -> None:
    async with client.transaction():
        await client.publish(outbox, "first", stream="s", dedup="k")
        await client.execute(f"UPDATE {book.schema}.streams SET closed_at = 1")
    with pytest.raises(DedupConflict, match="another body"):
        async with client.transaction():
            await client.publish(outbox, "other", stream="s", dedup="k")
    with pytest.raises(StreamClosed):
        async with client.transaction():
            await client.publish(outbox, "second", stream="s")
    with pytest.raises(StoreMissing, match="migrate"):
        async with client.transaction():
            await client.publish(Outbox(outbox.url.replace(book.schema, "nowhere")), "x")
    assert book.events() == ["first|s|1"]


async def test_many_are_appended_by_stream_and_answered_in_the_order_given(
    outbox: Outbox, client: Psycopg, book: Book
) -> None:
    async with client.transaction():
        answers = await client.publish_many(
            outbox, [{"type": "b", "stream": "b"}, {"type": "a", "stream": "a"}, {"type": "free", "to": "handler:x"}]
        )
    assert book.events() == ["free||1", "a|a|1", "b|b|1"]
    assert book.rows("SELECT id FROM {schema}.events WHERE type = 'b';") == [answers[0].id]


async def test_an_event_is_handled_once(outbox: Outbox, client: Psycopg, book: Book) -> None:
    seen = []
    for _ in range(2):
        async with client.transaction():
            seen.append(await client.once(outbox, "evt_1"))
    with contextlib.suppress(ZeroDivisionError):
        async with client.transaction():
            await client.once(outbox, "evt_2")
            raise ZeroDivisionError
    assert seen == [True, False]
    assert book.rows("SELECT event_id FROM {schema}.inbox;") == ["evt_1"]


async def test_a_block_that_raises_takes_its_note_back_and_nothing_else(
    outbox: Outbox, client: Psycopg, book: Book
) -> None:
    async with client.transaction():
        await client.execute(f"INSERT INTO {book.schema}.orders VALUES (42)")
        with pytest.raises(ZeroDivisionError) as raised:
            await client.once(outbox, "evt_1", ZeroDivisionError())
        assert not hasattr(raised.value, "__notes__")
    assert (book.orders(), book.rows("SELECT event_id FROM {schema}.inbox;")) == (1, [])


async def test_two_that_publish_many_to_the_same_streams_never_lock_each_other_out(
    outbox: Outbox, server: Server, book: Book
) -> None:
    async def work(streams: list[str], name: str) -> None:
        connection = await server.connect()
        for _ in range(30):
            async with connection.transaction():
                await outbox.publish_many_async(connection, [{"type": name, "stream": stream} for stream in streams])
        await connection.close()

    await asyncio.gather(work(["a", "b", "c"], "one"), work(["c", "b", "a"], "two"))
    assert book.rows("SELECT max(seq), count(*) FROM {schema}.events GROUP BY stream;") == ["60|60"] * 3
