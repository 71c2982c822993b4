"""Create, upgrade and drop Holdfast's tables from migration tools that run SQL on their own connections."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from importlib.resources import files

from holdfast.domain.errors import StoreTooNew
from holdfast.store.door import Door, Steps
from holdfast.store.drivers import SQLITE
from holdfast.store.postgres.place import in_schema, quoted
from holdfast.store.sqlite.migrate import scripts as sqlite_scripts
from holdfast.store.sqlite.migrate import split as sqlite_split
from holdfast.version import __version__

_POSTGRES_TABLE = re.compile(r"CREATE (?:UNLOGGED )?(?:TABLE|VIEW) (?:IF NOT EXISTS )?\{schema\}\.(\w+)")


def version_known(dialect: str) -> int:
    return _scripts(dialect)[-1][0]


def version_found(door: Door) -> Steps[int]:
    """The version of the schema in the caller's database; 0 if there is none."""
    if door.dialect == SQLITE:
        there = yield "SELECT name FROM sqlite_master WHERE name = 'holdfast_meta'", ()
        meta = "holdfast_meta"
    else:
        there = yield (
            f"SELECT tablename FROM pg_tables WHERE schemaname = '{door.schema}' AND tablename = 'meta'",  # noqa: S608
            (),
        )
        meta = f"{quoted(door.schema)}.meta"
    if not there:
        return 0
    rows = yield f"SELECT value FROM {meta} WHERE key = 'schema_version'", ()  # noqa: S608
    return int(rows[0][0]) if rows else 0


def upgrade(door: Door) -> Steps[tuple[int, int]]:
    """Bring the tables to the newest version in the caller's transaction. Returns the version before and after."""
    found = yield from version_found(door)
    known = version_known(door.dialect)
    if found > known:
        raise StoreTooNew(
            f"this store was made by a newer or unreleased version of holdfast: it has schema {found}, and this "
            f"version knows schemas up to {known}. Use a version that knows schema {found}"
        )
    for text in upgrade_texts(door.dialect, door.schema, found):
        yield text, ()
    return found, known


def downgrade(door: Door) -> Steps[None]:
    """Remove the tables and everything in them, in the caller's transaction."""
    for text in downgrade_texts(door.dialect, door.schema):
        yield text, ()


def upgrade_texts(dialect: str, schema: str, found: int) -> Iterator[str]:
    """The statements that lead from one version to the newest, one by one."""
    known = version_known(dialect)
    if found >= known:
        return
    facts = {"schema_version": str(known), "made_by": __version__}
    if dialect == SQLITE:
        facts["kind"] = "application"
    elif found == 0:
        yield f"CREATE SCHEMA IF NOT EXISTS {quoted(schema)}"
    split = sqlite_split if dialect == SQLITE else _postgres_split
    for number, script in _scripts(dialect):
        if number > found:
            for text in split(script):
                yield text if dialect == SQLITE else in_schema(text, schema)
    if dialect != SQLITE:
        yield from _postgres_views(schema)
    meta = "holdfast_meta" if dialect == SQLITE else f"{quoted(schema)}.meta"
    for key, value in facts.items():
        yield (
            f"INSERT INTO {meta} (key, value) VALUES ('{key}', '{value}') "  # noqa: S608
            f"ON CONFLICT (key) DO UPDATE SET value = excluded.value"
        )


def downgrade_texts(dialect: str, schema: str) -> Iterator[str]:
    if dialect != SQLITE:
        yield _refuse_foreign_tables(schema)
        yield f"DROP SCHEMA IF EXISTS {quoted(schema)} CASCADE"
        return
    for kind, name in _sqlite_names():
        yield f"DROP {kind} IF EXISTS {name}"


def _refuse_foreign_tables(schema: str) -> str:
    """A statement that fails if the schema holds tables that are not Holdfast's: they would be dropped too."""
    scripts = "".join(text for _, text in _scripts("postgres")) + _views_text()
    ours = ", ".join(f"'{name}'" for name in sorted(set(_POSTGRES_TABLE.findall(scripts))))
    return f"""DO $$ DECLARE found text; BEGIN
  SELECT string_agg(c.relname, ', ') INTO found FROM pg_catalog.pg_class c
  WHERE c.relnamespace = (SELECT oid FROM pg_catalog.pg_namespace WHERE nspname = '{schema}')
    AND c.relkind IN ('r', 'p', 'v', 'm', 'f') AND c.relname NOT IN ({ours});
  IF found IS NOT NULL THEN
    RAISE EXCEPTION USING MESSAGE = 'holdfast: the schema {schema} holds objects that are not Holdfast''s: ' || found
      || '; move them to another schema first';
  END IF;
END $$"""  # noqa: S608 - a schema's name is letters, digits and _


def _sqlite_names() -> list[tuple[str, str]]:
    """Views first, since they depend on tables. Read from a temporary database, not parsed out of SQL."""
    scratch = sqlite3.connect(":memory:")
    try:
        for _, script in sqlite_scripts():
            scratch.executescript(script)
        return scratch.execute(
            "SELECT upper(type), name FROM sqlite_master WHERE type IN ('view', 'table') "
            "AND name LIKE 'holdfast\\_%' ESCAPE '\\' ORDER BY type DESC, name"
        ).fetchall()
    finally:
        scratch.close()


def _scripts(dialect: str) -> list[tuple[int, str]]:
    if dialect == SQLITE:
        return sqlite_scripts()
    folder = files("holdfast.store.postgres").joinpath("migrations")
    names = sorted(entry.name for entry in folder.iterdir() if entry.name[:4].isdigit())
    return [(int(name[:4]), folder.joinpath(name).read_text(encoding="utf-8")) for name in names]


def _postgres_views(schema: str) -> Iterator[str]:
    """Recreate the compatibility views whenever the tables change."""
    for statement in _postgres_split(in_schema(_views_text(), schema)):
        view = statement.partition("CREATE VIEW ")[2].split()[:1]
        if view:
            yield f"DROP VIEW IF EXISTS {view[0]}"
        yield statement


def _views_text() -> str:
    return files("holdfast.store.postgres").joinpath("migrations", "views.sql").read_text(encoding="utf-8")


def _postgres_split(script: str) -> Iterator[str]:
    """The statements of a script; a function is one statement. It ends with a line's semicolon outside a $$ body."""
    lines: list[str] = []
    for line in script.splitlines():
        code = line.partition("--")[0].rstrip()
        if code or lines:
            lines.append(line)
        text = "\n".join(lines)
        if code.endswith(";") and text.count("$$") % 2 == 0:
            yield text.strip()
            lines = []
