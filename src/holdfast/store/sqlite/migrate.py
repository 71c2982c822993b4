"""Numbered SQL scripts, each applied once, all in one transaction. A store of a later version is refused."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from functools import cache
from importlib.resources import files

from holdfast.domain.errors import StoreError, StoreMissing, StoreTooNew
from holdfast.store.sqlite.connection import Connection

_VIEWS = "views.sql"
MOVED_KEY = "moved_to"
"""Why this store takes no more events: it was moved."""


def scripts() -> list[tuple[int, str]]:
    return list(_read_scripts())


@cache
def _read_scripts() -> tuple[tuple[int, str], ...]:
    """Read once for each process, since every opening needs the newest version."""
    folder = files("holdfast.store.sqlite").joinpath("migrations")
    names = sorted(entry.name for entry in folder.iterdir() if entry.name[:4].isdigit())
    return tuple((int(name[:4]), folder.joinpath(name).read_text(encoding="utf-8")) for name in names)


def views() -> str:
    return files("holdfast.store.sqlite").joinpath("migrations", _VIEWS).read_text(encoding="utf-8")


def version_known() -> int:
    return scripts()[-1][0]


def version_of(connection: Connection) -> int:
    """The schema version; 0 if there are no Holdfast tables yet."""
    if not connection.rows("SELECT 1 FROM sqlite_master WHERE name = 'holdfast_meta'"):
        return 0
    rows = connection.rows("SELECT value FROM holdfast_meta WHERE key = 'schema_version'")
    return int(rows[0][0]) if rows else 0


def check_version(connection: Connection) -> int:
    """The version of this store. Raises if it is newer than this program."""
    found = version_of(connection)
    if found > version_known():
        made_by = connection.rows("SELECT value FROM holdfast_meta WHERE key = 'made_by'")
        raise StoreTooNew(
            "this store was made by a newer or unreleased version of holdfast "
            f"({made_by[0][0] if made_by else 'unknown'}): it has schema {found}, and this version knows "
            f"schemas up to {version_known()}. Use a version that knows schema {found}, or restore "
            "a backup made before the upgrade"
        )
    return found


def refuse_moved(connection: Connection) -> None:
    """Raise if this store was copied elsewhere, or is just being copied."""
    if why := connection.rows("SELECT value FROM holdfast_meta WHERE key = ?", (MOVED_KEY,)):
        raise StoreError(str(why[0][0]))


def require(connection: Connection) -> None:
    """Raise unless the tables exist and have this version: for processes that may not migrate."""
    if check_version(connection) < version_known():
        raise StoreMissing(
            "this database is not set up for this version; run: holdfast db migrate --store URL, or --app MODULE:NAME"
        )


def migrate(connection: Connection, made_by: str, *, own: bool) -> int:
    """Bring the schema to the newest version. `own`: not an application's file, so add the compatibility views."""
    connection.run("BEGIN IMMEDIATE")
    try:
        found = check_version(connection)
        foreign = connection.rows(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'holdfast\\_%' ESCAPE '\\' "
            "AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' LIMIT 1"
        )
        if found == 0:
            _apply(connection, 0)
            kind = "own" if own and not foreign else "application"
            _set(connection, "kind", kind)
        elif found < version_known():
            _apply(connection, found)
        if found < version_known():
            _set(connection, "schema_version", str(version_known()))
            _set(connection, "made_by", made_by)
            _recreate_views(connection)
        connection.run("COMMIT")
    except BaseException:
        connection.run("ROLLBACK")
        raise
    return found


def kind_of(connection: Connection) -> str:
    return str(connection.rows("SELECT value FROM holdfast_meta WHERE key = 'kind'")[0][0])


def printed(own: bool) -> str:
    """Everything `migrate` would run on an empty database, for those who apply SQL with tools of their own."""
    kind = "own" if own else "application"
    values = f"('schema_version', '{version_known()}'), ('kind', '{kind}')"
    facts = f"INSERT INTO holdfast_meta (key, value) VALUES {values};\n"  # noqa: S608
    return "\n".join([*(text for _, text in scripts()), facts, views() if own else ""])


@cache
def split(script: str) -> tuple[str, ...]:
    """The statements of a script; a trigger is one statement. Cached, since finding their ends is slow."""
    return tuple(_statements(script))


def _statements(script: str) -> Iterator[str]:
    open_lines: list[str] = []
    for line in script.splitlines():
        open_lines.append(line)
        text = "\n".join(open_lines)
        if sqlite3.complete_statement(text):
            if any(part.strip() and not part.strip().startswith("--") for part in open_lines):
                yield text
            open_lines = []


def _apply(connection: Connection, found: int) -> None:
    for number, script in scripts():
        if number > found:
            for statement in split(script):
                connection.run(statement)


def _recreate_views(connection: Connection) -> None:
    if kind_of(connection) != "own":
        return
    for statement in split(views()):
        name = statement.partition("CREATE VIEW ")[2].split()[0]
        connection.run(f"DROP VIEW IF EXISTS {name}")
        connection.run(statement)


def _set(connection: Connection, key: str, value: str) -> None:
    connection.run(
        "INSERT INTO holdfast_meta (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
        (key, value),
    )
