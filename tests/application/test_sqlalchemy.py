"""For people who use SQLAlchemy: the events as a table, and Holdfast's tables in Alembic's migrations."""

from __future__ import annotations

import contextlib
import io
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.operations import Operations
from alembic.runtime.migration import MigrationContext

import holdfast.alembic
from holdfast import Outbox, StoreMissing
from holdfast.store.open import open_store
from postgres import fresh_schema, sqlite_and_postgres, start


class Place:
    def __init__(self, url: str, engine: sa.Engine) -> None:
        self.url, self.engine = url, engine

    @contextlib.contextmanager
    def op(self) -> Iterator[Operations]:
        with self.engine.begin() as connection:
            yield Operations(MigrationContext.configure(connection))


@pytest.fixture
def sqlite_place(tmp_path: Path) -> Iterator[Place]:
    engine = sa.create_engine(f"sqlite:///{tmp_path}/app.db")
    yield Place(f"sqlite:///{tmp_path}/app.db", engine)
    engine.dispose()


@pytest.fixture(params=sqlite_and_postgres())
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    if request.param == "sqlite":
        yield request.getfixturevalue("sqlite_place")
        return
    server, schema = start(str(request.param)), fresh_schema()
    engine = sa.create_engine(f"postgresql+psycopg://postgres@/postgres?host={server.folder}")
    yield Place(server.url(schema), engine)
    engine.dispose()
    server.psql(f"DROP SCHEMA IF EXISTS {schema} CASCADE;")


async def test_alembic_makes_a_store_that_works_and_removes_it(place: Place) -> None:
    with place.op() as op:
        holdfast.alembic.upgrade(op, url=place.url)
    with place.op() as op:
        holdfast.alembic.upgrade(op, url=place.url)
    store = open_store(place.url, driver="sqlite3", create=False)
    assert await store.contracts.all() == []
    await store.close()
    with place.op() as op:
        holdfast.alembic.downgrade(op, url=place.url)
    names = sa.inspect(place.engine).get_table_names(schema=None if "sqlite" in place.url else place.url[-9:])
    assert [name for name in names if name.startswith("holdfast")] == []


def test_alembics_schema_is_the_one_migrate_makes(sqlite_place: Place, tmp_path: Path) -> None:
    with sqlite_place.op() as op:
        holdfast.alembic.upgrade(op)
    Outbox(f"sqlite:///{tmp_path}/other.db").migrate()
    assert schema(tmp_path / "app.db") == schema(tmp_path / "other.db")


def test_offline_the_script_starts_from_the_given_version(tmp_path: Path) -> None:
    whole, rest = script(), script(since=1)
    assert "CREATE TABLE holdfast_events" in whole
    assert "CREATE TABLE holdfast_events" not in rest
    with contextlib.closing(sqlite3.connect(tmp_path / "offline.db")) as connection:
        connection.executescript(whole)
    Outbox(f"sqlite:///{tmp_path}/other.db").migrate()
    assert schema(tmp_path / "offline.db") == schema(tmp_path / "other.db")


def test_events_are_a_table_to_select_from(place: Place) -> None:
    outbox = Outbox(place.url)
    outbox.migrate()
    with place.engine.begin() as connection:
        outbox.publish(connection, "order.placed", {"id": 42}, stream="s", properties={"region": "eu"})
    events = outbox.table(sa.MetaData())
    with place.engine.connect() as connection:
        row = connection.execute(sa.select(events).where(events.c.type == "order.placed")).one()
    assert (row.stream, row.seq, row.payload, row.properties) == ("s", 1, {"id": 42}, {"region": "eu"})


def test_the_table_has_every_column_there_is(place: Place) -> None:
    outbox = Outbox(place.url)
    outbox.migrate()
    table = outbox.table(sa.MetaData())
    real = sa.inspect(place.engine).get_columns(table.name, schema=table.schema)
    assert [column["name"] for column in real] == [column.name for column in table.columns]


def test_downgrading_never_takes_an_applications_own_tables_along(place: Place) -> None:
    outbox = Outbox(place.url)
    outbox.migrate()
    own = "own" if "sqlite" in place.url else f"{outbox._tables.schema}.own"
    with place.engine.begin() as connection:
        connection.execute(sa.text(f"CREATE TABLE {own} (id int)"))
        outbox.publish(connection, "kept")
    if "sqlite" in place.url:
        with place.op() as op:
            holdfast.alembic.downgrade(op, url=place.url)
    else:
        with pytest.raises(sa.exc.DBAPIError, match=r"holds objects that are not Holdfast's: own;"), place.op() as op:
            holdfast.alembic.downgrade(op, url=place.url)
    with place.engine.begin() as connection:
        assert connection.execute(sa.text(f"SELECT count(*) FROM {own}")).scalar() == 0


def test_asked_twice_the_table_is_the_same(place: Place) -> None:
    metadata = sa.MetaData()
    assert Outbox(place.url).table(metadata) is Outbox(place.url).table(metadata)


def test_the_table_is_never_created_by_the_application(place: Place) -> None:
    metadata = sa.MetaData()
    outbox = Outbox(place.url)
    outbox.table(metadata)
    with pytest.raises(StoreMissing, match="migrate"), place.engine.begin() as connection:
        metadata.create_all(connection)
    outbox.migrate()
    metadata.create_all(place.engine)


def schema_of(thing: Any) -> str | None:
    """Where a table, or an index of one, stands: other tests have theirs in the same database."""
    return (thing.table if isinstance(thing, sa.Index) else thing).schema  # type: ignore[no-any-return]


def test_a_revision_written_by_comparison_leaves_our_tables_alone(place: Place) -> None:
    outbox = Outbox(place.url)
    outbox.migrate()
    metadata, schema = sa.MetaData(), None if "sqlite" in place.url else outbox._tables.schema
    outbox.table(metadata)
    sa.Table("shop_orders", metadata, sa.Column("id", sa.Integer, primary_key=True), schema=schema)
    mine = holdfast.alembic.include_object(outbox.url)
    with place.engine.connect() as connection:
        options = {"include_object": mine, "include_schemas": schema is not None}
        context = MigrationContext.configure(connection, opts=options)
        ours = [change for change in compare_metadata(context, metadata) if schema in (None, schema_of(change[1]))]
    assert [(verb, table.name) for verb, table in ours] == [("add_table", "shop_orders")]


def script(since: int = 0) -> str:
    """What Alembic prints instead of running it."""
    said = io.StringIO()
    context = MigrationContext.configure(dialect_name="sqlite", opts={"as_sql": True, "output_buffer": said})
    holdfast.alembic.upgrade(Operations(context), since=since)
    return said.getvalue()


def schema(path: Path) -> list[tuple[Any, ...]]:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY 1, 2")
        meta = connection.execute("SELECT key, value FROM holdfast_meta WHERE key <> 'epoch' ORDER BY key")
        return [*rows.fetchall(), *meta.fetchall()]
