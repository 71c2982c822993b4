"""The same promises on every connection an application may have to PostgreSQL, against a real server."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator

import pytest

from holdfast import DedupConflict, Outbox, StreamClosed
from holdfast.domain.errors import StoreMissing
from postgres import Server, fresh_schema, oldest_and_newest, start
from postgres_clients import KINDS, Asyncpg, Psycopg, StoredRows


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


@pytest.fixture
def stored(prepared: Outbox, server: Server) -> Iterator[StoredRows]:
    stored = StoredRows(server, prepared._tables.schema)
    yield stored
    tables = ", ".join(
        f"{stored.schema}.{name}" for name in ("events", "streams", "dedup", "unrouted", "inbox", "orders")
    )
    stored.rows(f"TRUNCATE {tables};")


@pytest.fixture(params=KINDS, ids=lambda kind: kind.__name__)
async def client(request: pytest.FixtureRequest, server: Server, stored: StoredRows) -> AsyncIterator[Psycopg]:
    made = request.param()
    await made.open(server)
    yield made
    await made.close()


@pytest.fixture
def outbox(prepared: Outbox) -> Outbox:
    return prepared


async def test_a_commit_keeps_the_row_and_exactly_one_event(
    outbox: Outbox, client: Psycopg, stored: StoredRows
) -> None:
    async with client.transaction():
        await client.execute(f"INSERT INTO {stored.schema}.orders VALUES (42)")
        published = await client.publish(outbox, "order.placed", {"id": 42}, stream="order:42")
        assert stored.events() == []
    assert (stored.events(), stored.orders()) == (["order.placed|order:42|1"], 1)
    assert stored.rows("SELECT id FROM {schema}.events;") == [published.id]


async def test_an_exception_leaves_neither(outbox: Outbox, client: Psycopg, stored: StoredRows) -> None:
    with contextlib.suppress(ZeroDivisionError):
        async with client.transaction():
            await client.execute(f"INSERT INTO {stored.schema}.orders VALUES (42)")
            await client.publish(outbox, "order.placed", {"id": 42}, stream="order:42")
            raise ZeroDivisionError
    assert (stored.events(), stored.orders()) == ([], 0)


async def test_a_connection_closed_before_its_commit_leaves_neither(
    outbox: Outbox, client: Psycopg, stored: StoredRows
) -> None:
    if isinstance(client, Asyncpg):
        await client.execute("BEGIN")
    await client.execute(f"INSERT INTO {stored.schema}.orders VALUES (42)")
    await client.publish(outbox, "order.placed", {"id": 42}, stream="order:42")
    await client.close()
    assert (stored.events(), stored.orders()) == ([], 0)


async def test_a_savepoint_takes_its_event_with_it(outbox: Outbox, client: Psycopg, stored: StoredRows) -> None:
    async with client.transaction():
        await client.publish(outbox, "kept", stream="s")
        await client.execute("SAVEPOINT inner_one")
        await client.publish(outbox, "undone", stream="s")
        await client.execute("ROLLBACK TO SAVEPOINT inner_one")
        await client.publish(outbox, "kept.too", stream="s")
    assert stored.events() == ["kept|s|1", "kept.too|s|2"]


async def test_a_retry_after_an_unacknowledged_commit_returns_the_first_event(
    outbox: Outbox, client: Psycopg, stored: StoredRows
) -> None:
    answers = []
    for _ in range(2):
        async with client.transaction():
            answers.append(await client.publish(outbox, "order.placed", {"id": 42}, stream="s", dedup="order-42"))
    first, again = answers
    assert (again.id, first.duplicate, again.duplicate) == (first.id, False, True)
    assert stored.events() == ["order.placed|s|1"]


async def test_the_doors_errors_are_ours(outbox: Outbox, client: Psycopg, stored: StoredRows) -> None:
    async with client.transaction():
        await client.publish(outbox, "first", stream="s", dedup="k")
        await client.execute(f"UPDATE {stored.schema}.streams SET closed_at = 1")
    with pytest.raises(DedupConflict, match="another body"):
        async with client.transaction():
            await client.publish(outbox, "other", stream="s", dedup="k")
    with pytest.raises(StreamClosed):
        async with client.transaction():
            await client.publish(outbox, "second", stream="s")
    with pytest.raises(StoreMissing, match="migrate"):
        async with client.transaction():
            await client.publish(Outbox(outbox.url.replace(stored.schema, "nowhere")), "x")
    assert stored.events() == ["first|s|1"]


async def test_many_are_appended_by_stream_and_answered_in_the_order_given(
    outbox: Outbox, client: Psycopg, stored: StoredRows
) -> None:
    async with client.transaction():
        answers = await client.publish_many(
            outbox, [{"type": "b", "stream": "b"}, {"type": "a", "stream": "a"}, {"type": "free", "to": "handler:x"}]
        )
    assert stored.events() == ["free||1", "a|a|1", "b|b|1"]
    assert stored.rows("SELECT id FROM {schema}.events WHERE type = 'b';") == [answers[0].id]


async def test_two_that_publish_many_to_the_same_streams_never_lock_each_other_out(
    outbox: Outbox, server: Server, stored: StoredRows
) -> None:
    async def work(streams: list[str], name: str) -> None:
        connection = await server.connect()
        for _ in range(30):
            async with connection.transaction():
                await outbox.publish_many_async(connection, [{"type": name, "stream": stream} for stream in streams])
        await connection.close()

    await asyncio.gather(work(["a", "b", "c"], "one"), work(["c", "b", "a"], "two"))
    assert stored.rows("SELECT max(seq), count(*) FROM {schema}.events GROUP BY stream;") == ["60|60"] * 3
