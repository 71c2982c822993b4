"""What `status` counts: right after rollbacks, and cheap however much is stored."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path
from typing import Any

from holdfast.store.postgres.statements import sql as postgres_sql
from holdfast.store.sqlite.statements import sql as sqlite_sql
from holdfast.store.sqlite.store import DRIVERS, SqliteStore, inline_executor, prepare_file
from holdfast.testing.suite.harness import Harness
from postgres import Server, opened

pytest_plugins = ("postgres",)


async def figures(store: Any) -> tuple[int, int, int]:
    found = await store.operator.figures()
    return found.events, found.streams, found.unmatched


async def test_what_a_publisher_rolled_back_on_postgres_is_not_counted(server: Server, schema: str) -> None:
    async with opened(server, schema) as store:
        await store.contracts.version()
        connection = await server.connect()
        for number, commits in enumerate((False, True, False, True, False)):
            transaction = connection.transaction()
            await transaction.start()
            await connection.execute(f"SELECT {schema}.publish('t', stream => 's{number}')")
            await (transaction.commit() if commits else transaction.rollback())
        await connection.close()
        assert await figures(store) == (2, 2, 0)
        await _route(store)
        assert await figures(store) == (2, 2, 2)


async def test_what_an_application_rolled_back_on_sqlite_is_not_counted(tmp_path: Path, driver: str) -> None:
    path = tmp_path / "app.db"
    prepare_file(path, driver, own=False, create=True)
    connection = sqlite3.connect(path, isolation_level=None)
    for number, end in enumerate(("ROLLBACK", "COMMIT", "ROLLBACK", "COMMIT", "ROLLBACK")):
        connection.execute("BEGIN")
        connection.execute("INSERT INTO holdfast_publish (type, stream) VALUES ('t', ?)", (f"s{number}",))
        connection.execute(end)
    connection.close()
    store = SqliteStore.open(path, driver=driver, executor=inline_executor, keep=True)
    assert await figures(store) == (2, 2, 0)
    await _route(store)
    assert await figures(store) == (2, 2, 2)
    await store.close()


async def _route(store: Any) -> None:
    harness = Harness.__new__(Harness)
    harness.store, harness.owner = store, await store.owners.register()
    await harness.route()


def test_counting_on_sqlite_scans_no_table_of_events(tmp_path: Path, driver: str) -> None:
    prepare_file(tmp_path / "h.db", driver, own=True, create=True)
    connection = DRIVERS[driver](tmp_path / "h.db")
    for text in (sqlite_sql.figures_events, sqlite_sql.unrouted_count):
        steps = [str(row[3]) for row in connection.rows(f"EXPLAIN QUERY PLAN {text}")]
        scanned = [step for step in steps if re.match(r"SCAN holdfast_(events|unmatched|streams)\b", step)]
        assert scanned == []
    connection.close()


async def test_counting_on_postgres_reads_only_the_counts_and_what_waits(server: Server, schema: str) -> None:
    async with opened(server, schema) as store, store._pool.connection() as pooled:
        text = pooled._named(postgres_sql.figures_events)
        plan = "\n".join(row[0] for row in await pooled.raw.fetch(f"EXPLAIN {text}"))
        assert set(re.findall(r" on (?:\w+\.)?(\w+)", plan)) <= {"counts", "unrouted", "unrouted_pkey"}
        text = pooled._named(postgres_sql.figures_first)
        await pooled.raw.execute("SET enable_seqscan = off")
        plan = "\n".join(row[0] for row in await pooled.raw.fetch(f"EXPLAIN {text}"))
        assert "Seq Scan on events" not in plan
