"""Migrations: the same schema by every path, all or nothing, and applied once."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.domain.errors import StoreError, StoreMissing
from holdfast.store.sqlite import migrate as migrations
from holdfast.store.sqlite.connection import Connection, tune
from holdfast.store.sqlite.migrate import migrate, printed, require, scripts, split, version_known, version_of, views
from holdfast.store.sqlite.store import DRIVERS

NEXT = "CREATE TABLE holdfast_later (id INTEGER PRIMARY KEY);\nALTER TABLE holdfast_streams ADD COLUMN later TEXT;\n"


@pytest.fixture(params=["apsw", "sqlite3"])
def driver(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def connect(tmp_path: Path, driver: str, request: pytest.FixtureRequest) -> Connect:
    return Connect(tmp_path, driver, request)


class Connect:
    def __init__(self, folder: Path, driver: str, request: pytest.FixtureRequest) -> None:
        self._folder, self._driver, self._request = folder, driver, request

    def __call__(self, name: str = "h.db") -> Connection:
        connection = DRIVERS[self._driver](self._folder / name)
        tune(connection)
        self._request.addfinalizer(connection.close)
        return connection


def known(monkeypatch: pytest.MonkeyPatch, numbered: list[tuple[int, str]]) -> None:
    """From now on the program knows these migrations."""
    monkeypatch.setattr(migrations, "scripts", lambda: numbered)


def schema(connection: Connection) -> list[tuple[object, ...]]:
    return connection.rows("SELECT type, name, tbl_name, sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY 1, 2")


def content(connection: Connection) -> list[tuple[object, ...]]:
    return connection.rows("SELECT key, value FROM holdfast_meta ORDER BY key")


@pytest.mark.parametrize("own", [True, False])
def test_the_schema_from_scratch_is_the_schema_by_migrations(
    connect: Connect, monkeypatch: pytest.MonkeyPatch, own: bool
) -> None:
    """Also for migrations to come: each released one stays as it is, and a next one is applied after it."""
    everything = [*scripts(), (version_known() + 1, NEXT)]
    from_scratch = connect("scratch.db")
    known(monkeypatch, everything)
    migrate(from_scratch, "2", own=own)
    for version in range(1, len(everything)):
        by_steps = connect(f"steps{version}.db")
        known(monkeypatch, everything[:version])
        assert migrate(by_steps, "1", own=own) == 0
        known(monkeypatch, everything)
        assert migrate(by_steps, "2", own=own) == version
        assert schema(by_steps) == schema(from_scratch)
        assert version_of(by_steps) == len(everything)


def test_a_crash_between_any_two_statements_leaves_the_file_empty(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = connect()
    (first,) = scripts()
    statements = split(first[1])
    for done in range(len(statements) + 1):
        known(monkeypatch, [(1, "\n".join([*statements[:done], "SELECT nonsense;\n"]))])
        with pytest.raises(StoreError, match="nonsense"):
            migrate(connection, "1", own=True)
        assert (schema(connection), version_of(connection)) == ([], 0)
    known(monkeypatch, [first])
    assert migrate(connection, "1", own=True) == 0


def test_a_later_migration_changes_tables_and_recreates_the_views(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, newest = connect(), version_known()
    migrate(old, "1", own=True)
    old.run("INSERT INTO holdfast_publish (type, stream) VALUES ('t', 's')")
    known(monkeypatch, [*scripts(), (newest + 1, NEXT)])
    monkeypatch.setattr(
        migrations, "views", lambda: views().replace("CREATE VIEW run_outbox", "CREATE VIEW run_outbox2")
    )
    with pytest.raises(StoreMissing, match="holdfast db migrate"):
        require(old)
    assert migrate(old, "2", own=True) == newest
    assert (version_of(old), dict(content(old))["made_by"]) == (newest + 1, "2")
    assert old.rows("SELECT id, head, later FROM holdfast_streams") == [("s", 1, None)]
    assert old.rows("SELECT count(*) FROM run_outbox2") == [(0,)]
    require(old)


@pytest.mark.parametrize("own", [True, False])
def test_migrating_twice_changes_nothing(connect: Connect, own: bool) -> None:
    connection = connect()
    migrate(connection, "1", own=own)
    before = schema(connection), content(connection)
    assert migrate(connection, "2", own=own) == version_known()
    assert migrate(connection, "2", own=not own) == version_known()
    assert (schema(connection), content(connection)) == before


def test_a_fresh_migration_that_crashes_leaves_an_empty_file(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    connection = connect()
    known(monkeypatch, [*scripts(), (version_known() + 1, NEXT + "CREATE TABLE nonsense (;\n")])
    with pytest.raises(StoreError):
        migrate(connection, "1", own=True)
    assert (schema(connection), version_of(connection)) == ([], 0)


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError, SystemExit])
def test_a_crash_in_the_middle_leaves_the_store_at_its_old_version(
    connect: Connect, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    connection, newest = connect(), version_known()
    migrate(connection, "1", own=True)
    before = schema(connection), content(connection)
    known(monkeypatch, [*scripts(), (newest + 1, NEXT)])

    def crash(connection: Connection) -> None:
        assert connection.rows("SELECT count(*) FROM holdfast_later") == [(0,)]
        raise error

    monkeypatch.setattr(migrations, "_recreate_views", crash)
    with pytest.raises(error):
        migrate(connection, "2", own=True)
    assert (schema(connection), content(connection)) == before
    monkeypatch.undo()
    assert migrate(connection, "2", own=True) == newest


def test_another_process_sees_all_of_a_migration_or_nothing(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    connection, other = connect(), connect()
    seen = []
    remake = migrations._recreate_views

    def look(connection: Connection) -> None:
        remake(connection)
        seen.append(version_of(other))

    monkeypatch.setattr(migrations, "_recreate_views", look)
    migrate(connection, "1", own=True)
    assert (seen, version_of(other)) == ([0], version_known())


def test_the_printed_schema_is_what_migrate_runs(connect: Connect) -> None:
    for own in (True, False):
        by_hand, by_us = connect(f"hand{own}.db"), connect(f"us{own}.db")
        for statement in split(printed(own)):
            by_hand.run(statement)
        migrate(by_us, "1", own=own)
        assert schema(by_hand) == schema(by_us)


def test_migrations_are_numbered_without_a_gap() -> None:
    assert [number for number, _ in scripts()] == list(range(1, version_known() + 1))


def test_a_trigger_is_one_statement() -> None:
    text = "-- why\nCREATE TRIGGER a AFTER INSERT ON b\nBEGIN\n  SELECT 1;\n  SELECT 2;\nEND;\n\n-- end\nSELECT 3;\n"
    assert [statement.strip().splitlines()[-1] for statement in split(text)] == ["END;", "SELECT 3;"]
