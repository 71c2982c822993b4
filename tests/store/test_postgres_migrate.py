"""The schema: created once by the first process, refused when it is too new, and printable."""

from __future__ import annotations

import asyncio
from pathlib import Path

import asyncpg
import pytest

from holdfast import Outbox
from holdfast.domain.errors import BadConfig, BadInput, StoreBusy, StoreError, StoreMissing, StoreTooNew
from holdfast.domain.event import new_event
from holdfast.store.open import migrate_store, open_store, print_schema
from holdfast.store.postgres import migrate as migrations
from holdfast.store.postgres.migrate import scripts, version_known, view_names
from holdfast.store.postgres.place import parse_place
from holdfast.store.postgres.store import PostgresStore, prepare_database
from holdfast.store.roles.events import EventFilter
from holdfast.store.roles.store import Feature
from postgres import Server, fresh_schema, opened

pytest_plugins = ("postgres",)

SHAPE = """
SELECT c.relname, c.relkind, c.reloptions::text, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace LEFT JOIN pg_attribute a ON a.attrelid = c.oid
WHERE n.nspname = $1 AND coalesce(a.attnum, 1) > 0 ORDER BY 1, a.attnum
"""


async def test_a_store_is_opened_by_its_url_and_made_on_first_use(server: Server, schema: str) -> None:
    store = open_store(server.url(schema), keep=True, own=True, driver="apsw")
    assert isinstance(store, PostgresStore)
    assert store.features == {Feature.MANY_OWNERS, Feature.COMPATIBILITY_VIEWS}
    await store.events.append([new_event("t")])
    await store.close()
    assert await asyncio.to_thread(migrate_store, server.url(schema), own=True) == (version_known(), version_known())


async def test_many_processes_may_make_it_at_once(server: Server, schema: str) -> None:
    stores = [PostgresStore.open(server.url(schema)) for _ in range(6)]
    assert await asyncio.gather(*(store.contracts.version() for store in stores)) == [1] * 6
    for store in stores:
        await store.close()


async def test_a_store_that_does_not_exist_is_an_error_unless_it_may_be_created(
    server: Server,
    schema: str,
) -> None:
    async with opened(server, schema, create=False) as store:
        with pytest.raises(StoreMissing, match="holdfast db migrate"):
            await store.contracts.version()
    assert migrate_store(server.url(schema), own=True) == (0, version_known())
    async with opened(server, schema, create=False) as store:
        assert await store.contracts.version() == 1


async def test_a_store_of_a_later_version_is_refused(server: Server, schema: str) -> None:
    migrate_store(server.url(schema), own=True)
    connection = await server.connect()
    await connection.execute(f"UPDATE {schema}.meta SET value = '999' WHERE key = 'schema_version'")
    await connection.close()
    async with opened(server, schema) as store:
        with pytest.raises(StoreTooNew, match="schema 999"):
            await store.contracts.version()


async def test_the_printed_schema_is_the_created_one(server: Server, schema: str) -> None:
    migrate_store(server.url(schema), own=True)
    by_hand = fresh_schema()
    done = server.psql(print_schema(own=True, url=server.url(by_hand)))
    assert done.returncode == 0, done.stderr
    connection = await server.connect()
    made, printed = [
        [str(tuple(row)).replace(name, "X") for row in await connection.fetch(SHAPE, name)]
        for name in (schema, by_hand)
    ]
    assert made == printed
    assert len(made) > 150
    await connection.execute(f"SET client_min_messages = warning; DROP SCHEMA {by_hand} CASCADE")
    await connection.close()


async def test_a_later_migration_keeps_the_data_and_recreates_the_views(
    server: Server, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    newest = version_known()
    async with opened(server, schema) as store:
        await store.events.append([new_event("t", stream="s")])
    later = (newest + 1, "ALTER TABLE {schema}.streams ADD COLUMN later text;")
    everything = [*scripts(), later]
    monkeypatch.setattr(migrations, "scripts", lambda: everything)
    async with opened(server, schema, create=False) as store:
        with pytest.raises(StoreMissing, match="holdfast db migrate"):
            await store.contracts.version()
    async with opened(server, schema) as store:
        assert tuple((await store._pool.rows("SELECT id, head, later FROM {schema}.streams"))[0]) == ("s", 1, None)
        assert await store._pool.rows("SELECT value FROM {schema}.meta WHERE key = 'schema_version'") == [
            (str(newest + 1),)
        ]
        await store._pool.rows("SELECT * FROM {schema}.run_events")


async def test_a_migration_that_fails_changes_nothing(
    server: Server, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    newest = version_known()
    migrate_store(server.url(schema), own=True)
    broken = (newest + 1, "CREATE TABLE {schema}.later (id bigint); SELECT nonsense;")
    everything = [*scripts(), broken]
    monkeypatch.setattr(migrations, "scripts", lambda: everything)
    with pytest.raises(StoreError, match="nonsense"):
        await prepare_database(server.url(schema))
    monkeypatch.undo()
    async with opened(server, schema, create=False) as store:
        assert await store._pool.rows(f"SELECT to_regclass('{schema}.later')") == [(None,)]


async def test_the_source_systems_names_are_views_that_show_no_secret(server: Server, schema: str) -> None:
    async with opened(server, schema) as store:
        await store.events.append([new_event("hook.stop", {"content": "hi"}, stream="session:a", source="hook")])
        assert set(view_names()) >= {"hook_outbox", "webhook_outbox", "inbound_queue", "run_events", "run_outbox"}
        for name in view_names():
            await store._pool.rows(f"SELECT * FROM {{schema}}.{name}")
        (row,) = await store._pool.rows("SELECT run_id, seq, kind, created_at FROM {schema}.run_events")
        assert tuple(row)[:3] == ("session:a", 1, "hook.stop")
        assert row[3].endswith("Z")


async def test_backup_is_refused_with_what_to_use_instead(server: Server, schema: str, tmp_path: Path) -> None:
    async with opened(server, schema) as store:
        with pytest.raises(BadInput, match="pg_dump"):
            await store.maintenance.backup(tmp_path / "copy")


@pytest.mark.parametrize("name", ["Big", "pg_own", "a;drop", "", "x" * 60])
def test_a_schema_has_a_plain_name(name: str) -> None:
    with pytest.raises(BadConfig, match="schema="):
        parse_place(f"postgresql://db/app?schema={name}")


@pytest.mark.parametrize("name", ["user", "order", "public"])
async def test_a_schema_name_may_be_an_sql_keyword(server: Server, name: str) -> None:
    await _database(server, "CREATE")
    url = f"postgresql://postgres@/words?host={server.folder}&schema={name}"
    migrate_store(url, own=True)
    store = PostgresStore.open(url)
    owner = await store.owners.register()
    connection = await asyncpg.connect(url.partition("&schema")[0])
    async with connection.transaction():
        await Outbox(url).publish_async(connection, "order.placed", stream="s", dedup="k")
        async with Outbox(url).once(connection, "evt_1", consumer="c") as first:
            assert first
    await connection.close()
    assert [event.type for event in (await store.events.find(EventFilter(), None, 10)).items] == ["order.placed"]
    assert await store.deliveries.reclaim() == 0
    await store.owners.retire(owner)
    await store.close()
    await _database(server, "DROP")


async def _database(server: Server, verb: str) -> None:
    connection = await server.connect()
    await connection.execute(f"{verb} DATABASE words")
    await connection.close()


def test_a_url_is_shown_without_its_password() -> None:
    for url in ("postgresql://ann:canary@db:5432/app?sslmode=require", "postgresql://db/app?password=canary&schema=x"):
        assert "canary" not in parse_place(url).shown
        assert "canary" in parse_place(url).dsn
        assert "schema" not in parse_place(url).dsn


async def test_a_server_that_is_not_there_is_a_clear_and_retryable_error(tmp_path: Path) -> None:
    store = PostgresStore.open(f"postgresql://postgres@/none?host={tmp_path}")
    with pytest.raises(StoreBusy, match="cannot be reached"):
        await store.contracts.version()
    await store.close()
    with pytest.raises(StoreBusy, match=r"cannot be reached .*; run this again"):
        migrate_store(f"postgresql://postgres@/none?host={tmp_path}", own=True)
    with pytest.raises(StoreError, match="closed"):
        await store.contracts.version()
