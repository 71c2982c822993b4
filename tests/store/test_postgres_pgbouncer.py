"""Behind a real PgBouncer in transaction mode, which hands each transaction to another server process."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from holdfast.config.config import load_config
from holdfast.daemon.runtime import Runtime
from holdfast.domain.address import parse_address
from holdfast.domain.contract import Contract
from holdfast.domain.errors import BadConfig
from holdfast.domain.event import new_event
from holdfast.operations.answers.encode import encode
from holdfast.store.postgres.liveness import POOLED
from holdfast.store.postgres.owner_check import RECONNECT_S
from holdfast.store.postgres.store import PostgresStore
from pgbouncer import pgbouncer
from postgres import Server

pytest_plugins = ("postgres",)


@pytest.fixture
def pooler(server: Server) -> Iterator[Path]:
    with pgbouncer(server) as folder:
        yield folder


def url(pooler: Path, schema: str, more: str = "") -> str:
    return f"postgresql://postgres@/postgres?host={pooler}&schema={schema}{more}"


@pytest.fixture
async def pooled(pooler: Path, schema: str) -> AsyncIterator[PostgresStore]:
    store = PostgresStore.open(url(pooler, schema))
    yield store
    await store.close()


async def test_a_pooler_is_detected_and_logged_once(pooled: PostgresStore, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "holdfast.store"):
        await pooled.owners.register()
        await pooled.owners.register()
    assert [record.message for record in caplog.records] == [POOLED]
    assert pooled.maintenance.notes() == [POOLED]
    assert "PgBouncer" in POOLED


async def test_a_daemon_behind_a_pooler_delivers_and_reports_every_event(
    pooler: Path, schema: str, pooled: PostgresStore
) -> None:
    """Many statements at once, on server processes that change under them: nothing prepared is missed or met twice."""
    seen: list[int] = []
    runtime = Runtime(
        pooled,
        load_config(None),
        None,
        handlers={"h": lambda event: seen.append(event.payload)},
        contracts=[Contract("h", parse_address("handler:h"), source="programmatic", ordered=True)],
    )
    await runtime.start()
    events = [new_event("t", i, stream=f"s{i % 7}", dedup_key=f"k{i}") for i in range(300)]
    await asyncio.gather(*(pooled.events.append([event]) for event in events))
    async with asyncio.timeout(60):
        while len(seen) < 300:
            await asyncio.sleep(0.02)
    status = encode(await runtime.operations.status.show())
    assert (status["healthy"], status["notes"]) == (True, [POOLED])
    await runtime.stop()
    assert sorted(seen) == list(range(300))


async def test_two_silent_owners_do_not_take_each_others_work(pooler: Path, schema: str, pooled: PostgresStore) -> None:
    other = PostgresStore.open(url(pooler, schema))
    one, two = await pooled.owners.register(), await other.owners.register()
    assert (one.chain != two.chain, two.unclean) == (True, False)
    await lease_one(pooled, one.id)
    assert await other.deliveries.reclaim() == 0
    await other.close()


async def test_the_work_of_a_silent_owner_that_stops_updating_its_row_is_taken_over(
    server: Server, pooler: Path, schema: str, pooled: PostgresStore
) -> None:
    owner = await pooled.owners.register()
    await lease_one(pooled, owner.id)
    connection = await server.connect()
    await connection.execute(f"UPDATE {schema}.owners SET seen_at = seen_at - 61000, boot_id = 'elsewhere/1'")
    await connection.close()
    assert await pooled.deliveries.reclaim() == 0, "it may only have lost its connection"
    await asyncio.sleep(RECONNECT_S)
    assert await pooled.deliveries.reclaim() == 1
    assert (await pooled.owners.register()).id != owner.id


async def test_a_direct_connection_has_locks_and_notifications(server: Server, pooler: Path, schema: str) -> None:
    store = PostgresStore.open(url(pooler, schema, f"&direct={server.folder}:5432"))
    owner = await store.owners.register()
    async with asyncio.timeout(60):
        while store._liveness.listens is None:
            await asyncio.sleep(0.01)
    assert store.maintenance.notes() == []
    connection = await server.connect()
    assert await connection.fetchval(f"SELECT count(*) FROM {schema}.owners_alive() id WHERE id = $1", owner.id) == 1
    await connection.execute(f"SELECT {schema}.publish('t')")
    async with asyncio.timeout(60):
        while not store.maintenance.changed_elsewhere():
            await asyncio.sleep(0.01)
    await connection.close()
    await store.close()


async def test_a_direct_address_that_is_a_pooler_is_refused(pooler: Path, schema: str) -> None:
    store = PostgresStore.open(url(pooler, schema, f"&direct={pooler}:5432"))
    with pytest.raises(BadConfig, match="leads to a pooler too"):
        await store.owners.register()
    await store.close()


async def test_without_a_pooler_nothing_is_logged(
    server: Server, schema: str, caplog: pytest.LogCaptureFixture
) -> None:
    store = PostgresStore.open(server.url(schema))
    await store.owners.register()
    assert store.maintenance.notes() == []
    await store.close()
    assert caplog.records == []


async def lease_one(store: PostgresStore, owner: int) -> None:
    """A delivery in this owner's hands."""
    await store._pool.run(
        lambda connection: connection.script(f"""
        INSERT INTO {{schema}}.queues (address, kind) VALUES ('handler:h', 'handler');
        INSERT INTO {{schema}}.events (id, source, type, timestamp, accepted_at) VALUES ('e', 's', 't', '', 1);
        INSERT INTO {{schema}}.deliveries (event, queue, created_at) SELECT max(n), max(q.id), 1
          FROM {{schema}}.events, {{schema}}.queues q;
        INSERT INTO {{schema}}.ready SELECT id, queue, 1, 1, {owner}, 7, {{schema}}.now_ms() + 600000
          FROM {{schema}}.deliveries;
    """)
    )
