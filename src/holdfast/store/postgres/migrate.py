"""Numbered SQL scripts, each applied once, all in one transaction and by one process at a time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from importlib.resources import files

from holdfast.domain.errors import StoreError, StoreMissing, StoreTooNew
from holdfast.store.postgres.place import in_schema, quoted
from holdfast.store.postgres.pooled_connection import PooledConnection

Work = Callable[[PooledConnection], Awaitable[object]]

_VIEWS = "views.sql"
COPY_KEY = "copy"
"""The position of an unfinished copy from another store."""
_SET = """
INSERT INTO {schema}.meta (key, value) VALUES ($1, $2) ON CONFLICT (key) DO UPDATE SET value = excluded.value
"""


def scripts() -> list[tuple[int, str]]:
    folder = files("holdfast.store.postgres").joinpath("migrations")
    names = sorted(entry.name for entry in folder.iterdir() if entry.name[:4].isdigit())
    return [(int(name[:4]), folder.joinpath(name).read_text(encoding="utf-8")) for name in names]


def views() -> str:
    return files("holdfast.store.postgres").joinpath("migrations", _VIEWS).read_text(encoding="utf-8")


def version_known() -> int:
    return scripts()[-1][0]


async def version_of(connection: PooledConnection) -> int:
    """The schema version; 0 if there are no Holdfast tables yet."""
    if await connection.value("SELECT to_regclass('{schema}.meta')") is None:
        return 0
    return int(await connection.value("SELECT value FROM {schema}.meta WHERE key = 'schema_version'") or 0)


async def check_version(connection: PooledConnection) -> int:
    """The version of this store. Raises if it is newer than this program."""
    found = await version_of(connection)
    if found > version_known():
        made_by = await connection.value("SELECT value FROM {schema}.meta WHERE key = 'made_by'")
        raise StoreTooNew(
            f"this store was made by a newer or unreleased version of holdfast ({made_by or 'unknown'}): it has "
            f"schema {found}, and this version knows schemas up to {version_known()}. Use a version that knows "
            f"schema {found}, or restore a backup made before the upgrade"
        )
    if found and await connection.value("SELECT 1 FROM {schema}.meta WHERE key = $1", COPY_KEY):
        raise StoreError("this store is an unfinished copy; run the same holdfast db copy again to complete it")
    return found


async def require(connection: PooledConnection) -> None:
    """Raise unless the tables exist and have this version: for processes that may not migrate."""
    async with connection.raw.transaction(isolation="read_committed"):
        found = await check_version(connection)
    if found < version_known():
        raise StoreMissing(
            "this database is not set up for this version; run: holdfast db migrate --store URL, or --app MODULE:NAME"
        )


async def migrate(connection: PooledConnection, schema: str, made_by: str, created: Work | None = None) -> int:
    """Bring the schema to the newest version. Returns the version found before.

    `created` runs in the same transaction if there were no tables before.
    """
    async with connection.raw.transaction(isolation="read_committed"):
        if (found := await check_version(connection)) == version_known():
            return found
        await connection.run("SELECT pg_advisory_xact_lock(hashtextextended('holdfast migrate ' || $1, 0))", schema)
        found = await check_version(connection)
        if found == version_known():  # another process did it while this one waited
            return found
        if not await connection.value("SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = $1", schema):
            await connection.script(f"CREATE SCHEMA {quoted(schema)}")
        for number, script in scripts():
            if number > found:
                await connection.script(script)
        await connection.run(_SET, "schema_version", str(version_known()))
        await connection.run(_SET, "made_by", made_by)
        for name in view_names():
            await connection.script(f"DROP VIEW IF EXISTS {{schema}}.{name}")
        await connection.script(views())
        if created is not None and not found:
            await created(connection)
    return found


async def replace_views(connection: PooledConnection) -> None:
    """Define the compatibility views again, after a table that they read was replaced. Their grants stay."""
    await connection.script(views().replace("CREATE VIEW", "CREATE OR REPLACE VIEW"))


def view_names() -> list[str]:
    return [part.split()[0] for part in views().split("CREATE VIEW {schema}.")[1:]]


def printed(schema: str) -> str:
    """Everything `migrate` would run on an empty database, for those who apply SQL with tools of their own."""
    version = _SET.replace("$1", "'schema_version'").replace("$2", f"'{version_known()}'").strip() + ";\n"
    parts = [f"CREATE SCHEMA {quoted(schema)};\n", *(text for _, text in scripts()), version, views()]
    return in_schema("\n".join(parts), schema)
