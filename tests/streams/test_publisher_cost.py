"""A cycle of the publisher costs the same with many streams as with few: it reads only the list of lagging ones."""

from __future__ import annotations

import asyncio

import apsw
import pytest

from holdfast.store.postgres.statements import sql as postgres_sql
from postgres import end_schema, fresh_schema, newest, start
from publishing import MemorySink, PublishHarness, sqlite_url

pytest_plugins = ("postgres",)

ACTIVE = 50


class Meter:
    """Counts the statements of a store's connections, and the steps of SQLite's virtual machine in them."""

    def __init__(self, store) -> None:
        self.statements = self.steps = 0
        self._connections = [store._writer._connection._raw, store._reader._connection._raw]
        for connection in self._connections:
            connection.trace_v2(apsw.SQLITE_TRACE_PROFILE, self._count)

    def _count(self, record) -> None:
        self.statements += 1
        self.steps += record["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"]

    def stop(self) -> None:
        for connection in self._connections:
            connection.trace_v2(0)


async def _cycle(folder, streams: int) -> tuple[int, int]:
    """One cycle over 50 active streams, with so many others that were read to their end."""
    folder.mkdir()
    harness, sink = PublishHarness(sqlite_url(folder)), MemorySink()
    await harness.start(sink)

    def fill(connection) -> None:
        connection.run(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?) "
            "INSERT INTO holdfast_streams (id, head, created_at) SELECT 'run:old' || i, 9, 0 FROM n", (streams,)
        )  # fmt: skip
        connection.run(
            "INSERT INTO holdfast_cursors (reader, stream, position, updated_at) "
            "SELECT 'sink:memory', id, 9, 0 FROM holdfast_streams"
        )
        connection.run("UPDATE holdfast_readers SET surveyed = NULL")

    await harness.store._writer.run(fill)
    await harness.publish()
    await harness.append(*(f"run:{number}" for number in range(ACTIVE)))
    await harness.route()
    meter = Meter(harness.store)
    await harness.publish()
    meter.stop()
    assert len(sink.batches) == ACTIVE
    await harness.close()
    return meter.statements, meter.steps


async def test_a_cycle_costs_the_same_with_a_hundred_streams_and_with_many(tmp_path):
    few = await _cycle(tmp_path / "few", 100)
    many = await _cycle(tmp_path / "many", 20_000)
    assert many == few


PLANNED = {
    "lagging_claim": "1, 2, 3, 'sink:memory', 10, 50",
    "lagging_next": "'{sink:memory}'",
    "lagging_settle": "'{sink:memory}', '{run:1}', '{1}', '{1}', '{1}', '{1}', '{x}', '{t}', 1",
    "stream_read_many": "'{run:1}', '{0}', 100, 1000",
    "lagging_mark": "'{sink:memory}', '{run:1}', '{1}', '{1}', '{1}', 1",
}


@pytest.mark.parametrize("name", PLANNED)
def test_postgresql_finds_every_row_of_a_cycle_by_an_index(name):
    asyncio.run(_check_plan(name))


async def _check_plan(name: str) -> None:
    server, schema = start(newest()), fresh_schema()
    harness = PublishHarness(server.url(schema))
    await harness.start(MemorySink())
    try:
        async with harness.store._pool.connection() as session:
            text = session._named(getattr(postgres_sql, name))
            await session.raw.execute(f"PREPARE planned AS {text}")
            await session.raw.execute("SET plan_cache_mode = force_generic_plan")
            plan = [row[0] for row in await session.raw.fetch(f"EXPLAIN EXECUTE planned ({PLANNED[name]})")]
            await session.raw.execute("DEALLOCATE planned; RESET plan_cache_mode")
        assert [line for line in plan if "Seq Scan" in line] == []
    finally:
        await harness.close()
        await end_schema(server, schema)
