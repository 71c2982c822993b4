"""Numbered SQL, applied once each, all in one transaction and by one process at a time."""

from __future__ import annotations

from importlib.resources import files

from holdfast.domain.errors import StoreMissing, StoreTooNew
from holdfast.store.postgres.place import in_schema, quoted
from holdfast.store.postgres.pooled_connection import PooledConnection

_VIEWS = "views.sql"
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


async def version_of(session: PooledConnection) -> int:
    """0 where there are no Holdfast tables yet."""
    if await session.value("SELECT to_regclass('{schema}.meta')") is None:
        return 0
    return int(await session.value("SELECT value FROM {schema}.meta WHERE key = 'schema_version'") or 0)


async def check_version(session: PooledConnection) -> int:
    """The version of this store, if this program can work with it."""
    found = await version_of(session)
    if found > version_known():
        made_by = await session.value("SELECT value FROM {schema}.meta WHERE key = 'made_by'")
        raise StoreTooNew(
            f"this store has schema {found}, made by holdfast {made_by or 'unknown'}; this program knows schemas up to "
            f"{version_known()}. Install that version, or restore a backup made before the upgrade"
        )
    return found


async def require(session: PooledConnection) -> None:
    """For those who only use a store: it must be there and be of this version."""
    async with session.raw.transaction(isolation="read_committed"):
        found = await check_version(session)
    if found < version_known():
        raise StoreMissing("this database is not set up for this version; run: holdfast db migrate")


async def migrate(session: PooledConnection, schema: str, made_by: str) -> int:
    """Bring the schema to the newest version. The version found before."""
    async with session.raw.transaction(isolation="read_committed"):
        if (found := await check_version(session)) == version_known():
            return found
        await session.run("SELECT pg_advisory_xact_lock(hashtextextended('holdfast migrate ' || $1, 0))", schema)
        found = await check_version(session)
        if found == version_known():  # somebody else did it while we waited
            return found
        if not await session.value("SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = $1", schema):
            await session.script(f"CREATE SCHEMA {quoted(schema)}")
        for number, script in scripts():
            if number > found:
                await session.script(script)
        await session.run(_SET, "schema_version", str(version_known()))
        await session.run(_SET, "made_by", made_by)
        for name in view_names():
            await session.script(f"DROP VIEW IF EXISTS {{schema}}.{name}")
        await session.script(views())
    return found


def view_names() -> list[str]:
    return [part.split()[0] for part in views().split("CREATE VIEW {schema}.")[1:]]


def printed(schema: str) -> str:
    """Everything `migrate` would run on an empty database, for people who run their own."""
    version = _SET.replace("$1", "'schema_version'").replace("$2", f"'{version_known()}'").strip() + ";\n"
    parts = [f"CREATE SCHEMA {quoted(schema)};\n", *(text for _, text in scripts()), version, views()]
    return in_schema("\n".join(parts), schema)
