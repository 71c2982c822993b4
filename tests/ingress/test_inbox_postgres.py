"""`once` on every kind of connection to PostgreSQL."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterator

import pytest

from holdfast import Outbox
from postgres import Server, fresh_schema, oldest_and_newest, start
from postgres_clients import KINDS, Psycopg, StoredRows


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


async def test_an_event_is_handled_once(outbox: Outbox, client: Psycopg, stored: StoredRows) -> None:
    seen = []
    for _ in range(2):
        async with client.transaction():
            seen.append(await client.once(outbox, "evt_1"))
    with contextlib.suppress(ZeroDivisionError):
        async with client.transaction():
            await client.once(outbox, "evt_2")
            raise ZeroDivisionError
    assert seen == [True, False]
    assert stored.rows("SELECT event_id FROM {schema}.inbox;") == ["evt_1"]


async def test_a_block_that_raises_takes_its_note_back_and_nothing_else(
    outbox: Outbox, client: Psycopg, stored: StoredRows
) -> None:
    async with client.transaction():
        await client.execute(f"INSERT INTO {stored.schema}.orders VALUES (42)")
        with pytest.raises(ZeroDivisionError) as raised:
            await client.once(outbox, "evt_1", ZeroDivisionError())
        assert not hasattr(raised.value, "__notes__")
    assert (stored.orders(), stored.rows("SELECT event_id FROM {schema}.inbox;")) == (1, [])
