"""Holdfast in a Django project: events in the transaction of `transaction.atomic`, on both databases."""

from __future__ import annotations

import io
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import django
import pytest
from django.conf import settings
from django.core.management import call_command
from django.db import connections, transaction
from django.db.migrations import Migration
from django.db.migrations.state import ProjectState

import holdfast.django
from holdfast import DedupConflict, StreamClosed
from holdfast.domain.errors import BadConfig, StoreMissing
from holdfast.store.schema import version_known
from postgres import chosen, start

SCHEMA = "django_events"


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """One project with several databases. Django takes its settings once for a whole process."""
    servers = {f"postgres{version}": start(version) for version in chosen()}
    postgres = {"ENGINE": "django.db.backends.postgresql", "NAME": "postgres", "USER": "postgres"}
    settings.configure(
        DATABASES={
            "default": {"ENGINE": "django.db.backends.sqlite3", "NAME": tmp_path_factory.mktemp("django") / "app.db"},
            **{alias: {**postgres, "HOST": str(server.folder)} for alias, server in servers.items()},
        },
        INSTALLED_APPS=["holdfast.django"],
        USE_TZ=True,
        HOLDFAST={"DATABASE": "default", "SCHEMA": SCHEMA},
    )
    django.setup()
    yield
    connections.close_all()
    for server in servers.values():
        server.psql(f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE;")


@pytest.fixture(params=["default", *(f"postgres{version}" for version in chosen())])
def database(request: pytest.FixtureRequest, project: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The database that HOLDFAST names, without Holdfast's tables."""
    monkeypatch.setitem(settings.HOLDFAST, "DATABASE", request.param)
    yield request.param
    _remove(request.param)


@pytest.fixture
def ready(database: str) -> str:
    call_command("holdfast_migrate", stdout=io.StringIO())
    return database


def events(alias: str) -> list[tuple[Any, ...]]:
    table = "holdfast_events" if alias == "default" else f"{SCHEMA}.events"
    with connections[alias].cursor() as cursor:
        cursor.execute(f"SELECT type, seq FROM {table} ORDER BY n")
        return cursor.fetchall()


def _remove(alias: str) -> None:
    operation, state = holdfast.django.schema(), ProjectState()
    with connections[alias].schema_editor() as editor:
        operation.database_backwards("shop", editor, state, state)


def test_what_atomic_commits_is_published(ready: str) -> None:
    with transaction.atomic(using=ready):
        published = holdfast.django.publish("order.placed", {"id": 42}, stream="order:42")
    assert (events(ready), published.duplicate) == ([("order.placed", 1)], False)


def test_what_atomic_rolls_back_is_not(ready: str) -> None:
    with suppress(ZeroDivisionError), transaction.atomic(using=ready):
        holdfast.django.publish("order.placed", {"id": 42}, stream="order:42")
        raise ZeroDivisionError
    assert events(ready) == []


def test_an_inner_atomic_takes_its_event_with_it(ready: str) -> None:
    with transaction.atomic(using=ready):
        holdfast.django.publish("kept", stream="s")
        with suppress(ZeroDivisionError), transaction.atomic(using=ready):
            holdfast.django.publish("undone", stream="s")
            raise ZeroDivisionError
        holdfast.django.publish("kept.too", stream="s")
    assert events(ready) == [("kept", 1), ("kept.too", 2)]


def test_a_connection_closed_before_its_commit_leaves_nothing(ready: str) -> None:
    connection = connections[ready]
    connection.set_autocommit(False)
    holdfast.django.publish("order.placed")
    connection.close()
    connection.connect()
    assert events(ready) == []


def test_a_retry_returns_the_first_and_errors_are_ours(ready: str) -> None:
    answers = [holdfast.django.publish("order.placed", {"id": 42}, stream="s", dedup="k") for _ in range(2)]
    assert (answers[0].id, answers[1].duplicate) == (answers[1].id, True)
    with pytest.raises(DedupConflict), transaction.atomic(using=ready):
        holdfast.django.publish("order.placed", {"id": 43}, stream="s", dedup="k")
    with connections[ready].cursor() as cursor:
        table = "holdfast_streams" if ready == "default" else f"{SCHEMA}.streams"
        cursor.execute(f"UPDATE {table} SET closed_at = 1")
    with pytest.raises(StreamClosed), transaction.atomic(using=ready):
        holdfast.django.publish("order.late", stream="s")
    assert events(ready) == [("order.placed", 1)]


def test_without_tables_it_says_what_to_do(database: str) -> None:
    with pytest.raises(StoreMissing, match="migrate"), transaction.atomic(using=database):
        holdfast.django.publish("order.placed")


def test_the_message_about_missing_tables_names_the_projects_own_command(database: str) -> None:
    option = "" if database == "default" else f" --database {database}"
    with pytest.raises(StoreMissing) as missing, transaction.atomic(using=database):
        holdfast.django.publish("order.placed")
    assert missing.value.message.endswith(f"and run: python manage.py migrate{option}")


def test_migrate_creates_the_tables_and_migrate_zero_removes_them(database: str) -> None:
    call_command("migrate", database=database, stdout=io.StringIO())
    holdfast.django.publish("order.placed")
    assert events(database) == [("order.placed", 1)]
    said = io.StringIO()
    call_command("makemigrations", check=True, dry_run=True, stdout=said)
    assert "No changes" in said.getvalue()
    call_command("migrate", "holdfast", "zero", database=database, stdout=io.StringIO())
    with pytest.raises(StoreMissing), transaction.atomic(using=database):
        holdfast.django.publish("order.placed")
    with connections[database].cursor() as cursor:
        cursor.execute("DROP TABLE django_migrations")


def test_every_schema_has_a_migration_of_the_application(project: None) -> None:
    """After a new schema, `manage.py migrate` must have something to apply."""
    names = sorted(path.name for path in (Path(holdfast.django.__file__).parent / "migrations").glob("0*.py"))
    assert [int(name[:4]) for name in names] == list(range(1, len(names) + 1))
    assert len(names) == max(version_known(dialect) for dialect in ("sqlite", "postgres"))


def test_the_command_may_be_repeated(database: str) -> None:
    said = io.StringIO()
    call_command("holdfast_migrate", stdout=said)
    call_command("holdfast_migrate", database=database, stdout=said)
    first, second = said.getvalue().splitlines()
    assert "updated from 0" in first
    assert "already up to date" in second


def test_a_migration_of_the_projects_own_makes_and_removes_the_tables(database: str) -> None:
    migration, state = Migration("0002_holdfast", "shop"), ProjectState()
    migration.operations = [holdfast.django.schema()]
    with connections[database].schema_editor() as editor:
        migration.apply(state, editor)
    holdfast.django.publish("order.placed")
    assert events(database) == [("order.placed", 1)]
    with connections[database].schema_editor() as editor:
        migration.unapply(state, editor)
    with pytest.raises(StoreMissing), transaction.atomic(using=database):
        holdfast.django.publish("order.placed")


def test_the_outbox_is_the_projects_database(ready: str) -> None:
    outbox = holdfast.django.outbox()
    outbox.migrate()
    with transaction.atomic(using=ready):
        outbox.publish(connections[ready], "order.placed")
    assert events(ready) == [("order.placed", 1)]


def test_the_default_connection_is_known_by_its_proxy(project: None) -> None:
    from django.db import connection

    holdfast.django.migrate("default")
    with transaction.atomic():
        holdfast.django.outbox().publish(connection, "order.placed")
    with closing(sqlite3.connect(Path(settings.DATABASES["default"]["NAME"]))) as look:
        assert look.execute("SELECT type FROM holdfast_events").fetchall() == [("order.placed",)]
    _remove("default")


def test_a_migration_makes_the_tables_only_where_the_events_are(ready: str) -> None:
    """Django runs every migration on every database."""
    other = next(alias for alias in connections if alias != ready)
    state = ProjectState()
    with connections[other].schema_editor() as editor:
        holdfast.django.schema().database_forwards("shop", editor, state, state)
    tables = connections[other].introspection.table_names()
    assert [name for name in tables if name.startswith("holdfast")] == []
    if other != "default":
        with connections[other].cursor() as cursor:
            cursor.execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", [SCHEMA])
            assert cursor.fetchall() == []


def test_the_daemon_reaches_the_database_as_the_project_does(project: None, monkeypatch: pytest.MonkeyPatch) -> None:
    alias = f"postgres{chosen()[-1]}"
    monkeypatch.setitem(settings.HOLDFAST, "DATABASE", alias)
    options = {"sslmode": "require", "sslrootcert": "/etc/my ca.pem", "prepare_threshold": None}
    monkeypatch.setitem(connections[alias].settings_dict, "OPTIONS", options)
    url = holdfast.django.outbox().url
    assert "sslmode=require" in url
    assert "sslrootcert=/etc/my%20ca.pem" in url
    assert "prepare_threshold" not in url


def test_an_unknown_setting_is_named(project: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(settings.HOLDFAST, "DATABSE", "x")
    with pytest.raises(BadConfig, match="DATABSE"):
        holdfast.django.outbox()
