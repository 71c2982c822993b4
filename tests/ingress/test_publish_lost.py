"""One table of drivers and situations: what is left of a transaction that ended in order, in an error, or not at all.

Each client lives in a process of its own, so that it can be killed at the very place. Afterwards the transaction is run
again with the same key, as an application does that got no answer: there is one event, the first.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Iterator
from multiprocessing import forkserver
from pathlib import Path
from typing import Any

import pytest

from clients import POSTGRES, SQLITE, Client
from holdfast import Outbox
from lost_commit import swallowing_commits
from postgres import Server, fresh_schema, oldest_and_newest, start
from publisher import (
    COMMITTED,
    KILLED,
    KILLED_UNHEARD,
    LOST,
    LOST_UNHEARD,
    RAISED,
    ROLLED_BACK,
    Situation,
    live,
)

pytest_plugins = ("postgres",)

TIMEOUT_S = 60

_spawn = multiprocessing.get_context("forkserver")


@pytest.fixture(scope="module", autouse=True)
def nursery() -> None:
    """A process that has everything imported and nothing open; each client is a copy of it."""
    _spawn.set_forkserver_preload(["publisher", "django.db.backends.postgresql.base", "holdfast.ingress.publish"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))  # before 3.13 it knows no other way
        forkserver.ensure_running()


SITUATIONS = [COMMITTED, ROLLED_BACK, RAISED, KILLED, KILLED_UNHEARD]


class Place:
    """A database, and a look at it from outside."""

    def __init__(self, url: str, folder: Path, orders: str, look: Callable[[str], list[str]]) -> None:
        self.url, self.folder, self.orders, self.rows = url, folder, orders, look

    def events(self) -> list[str]:
        return self.rows(f"SELECT id FROM {'holdfast_' if 'sqlite' in self.url else self.schema + '.'}events")

    @property
    def schema(self) -> str:
        return self.url.rpartition("schema=")[2]


@pytest.fixture(scope="module", params=oldest_and_newest())
def prepared(request: pytest.FixtureRequest) -> Iterator[tuple[Server, str]]:
    """One schema for all of these tests; each leaves it empty."""
    server, schema = start(str(request.param)), fresh_schema()
    Outbox(server.url(schema)).migrate()
    server.psql(f"CREATE TABLE {schema}.orders (id int PRIMARY KEY);")
    yield server, schema
    server.psql(f"SET client_min_messages = warning; DROP SCHEMA {schema} CASCADE;")


@pytest.fixture
def postgres(prepared: tuple[Server, str]) -> Iterator[Place]:
    server, schema = prepared

    def look(query: str) -> list[str]:
        done = server.psql(query + ";")
        assert done.returncode == 0, done.stderr
        return done.stdout.split()

    yield Place(server.url(schema), server.folder, f"{schema}.orders", look)
    tables = ("events", "streams", "dedup", "unrouted", "inbox", "orders")
    look(f"TRUNCATE {', '.join(f'{schema}.{table}' for table in tables)}")


@pytest.fixture
def file(tmp_path: Path) -> Place:
    def look(query: str) -> list[str]:
        with contextlib.closing(sqlite3.connect(tmp_path / "app.db")) as connection:
            return [str(row[0]) for row in connection.execute(query)]

    place = Place(f"sqlite:///{tmp_path}/app.db", tmp_path, "orders", look)
    box = Outbox(place.url)
    box.migrate()
    with contextlib.closing(sqlite3.connect(tmp_path / "app.db")) as connection, connection:
        box.prepare(connection)
        connection.execute("CREATE TABLE orders (id int PRIMARY KEY)")
    return place


@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda situation: situation.name)
@pytest.mark.parametrize("kind", SQLITE, ids=lambda kind: kind.__name__)
def test_a_lost_commit_on_sqlite(kind: type[Client], situation: Situation, file: Place) -> None:
    check(kind, situation, file, file.folder)


@pytest.mark.parametrize("situation", [*SITUATIONS, LOST, LOST_UNHEARD], ids=lambda situation: situation.name)
@pytest.mark.parametrize("kind", POSTGRES, ids=lambda kind: kind.__name__)
def test_a_lost_commit_on_postgres(kind: type[Client], situation: Situation, postgres: Place) -> None:
    if situation is not LOST_UNHEARD:
        check(kind, situation, postgres, postgres.folder)
        return
    with (
        tempfile.TemporaryDirectory(prefix="hf-") as folder,
        swallowing_commits(postgres.folder, Path(folder)) as swallowed,
    ):
        check(kind, situation, postgres, Path(folder))
        assert swallowed.is_set()


def check(kind: type[Client], situation: Situation, place: Place, folder: Path) -> None:
    exit, first = run(kind, situation, place, folder)
    assert exit == situation.exit
    assert len(place.events()) == len(place.rows(f"SELECT id FROM {place.orders}")) == situation.events
    exit, again = run(kind, COMMITTED, place, place.folder)
    assert exit == 0
    assert again[1] is bool(situation.events)
    assert place.events() == [again[0]]
    if situation.events:
        assert again[0] == first[0]


def run(kind: type[Client], situation: Situation, place: Place, folder: Path) -> tuple[int | None, Any]:
    """How the client's process ended, and what `publish` answered in it."""
    ours, theirs = _spawn.Pipe()
    process = _spawn.Process(target=live, args=(kind, situation, place.url, folder, place.orders, theirs))
    process.start()
    theirs.close()
    try:
        answer = None
        with contextlib.suppress(EOFError):  # it ended before it had anything to tell
            answer = ours.recv() if ours.poll(TIMEOUT_S) else None
        process.join(TIMEOUT_S)
        return process.exitcode, answer
    finally:
        if process.is_alive():
            process.kill()
        ours.close()
