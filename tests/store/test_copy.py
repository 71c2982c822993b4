"""`holdfast db copy`: everything of a SQLite store arrives in PostgreSQL, also after an interruption."""

from __future__ import annotations

import asyncio
import hashlib
import os
import sys
from pathlib import Path

import apsw
import asyncpg
import pytest

from daemon import run_cli
from holdfast.config.config import load_config
from holdfast.daemon.runtime import Runtime
from holdfast.domain.address import parse_address
from holdfast.domain.contract import Contract, Criterion
from holdfast.domain.errors import BadInput, KeeperHeld, Reject, StoreError
from holdfast.domain.event import Event, new_event
from holdfast.domain.store_url import PGMQ_PREFIX
from holdfast.domain.substrate_receipt import parse_receipt
from holdfast.ledger.append import append_receipt
from holdfast.ledger.verifier import verify_receipts
from holdfast.ports import SystemChance, SystemClock
from holdfast.store import copy as copying
from holdfast.store.copy import cancel_copy, copy_store
from holdfast.store.copy_tables import COPIED, NOT_COPIED
from holdfast.store.open import open_store
from holdfast.store.postgres.store import prepare_database
from postgres import Server

pytest_plugins = ("postgres",)

EVENTS = 2000
WANTED = Criterion(match=("t", "waits"))
GOOD = Contract("good", parse_address("handler:h"), source="programmatic", ordered=True, type_criterion=WANTED)
LATER = Contract("later", parse_address("handler:nowhere"), source="api", ordered=True, type_criterion=WANTED)
SOURCE = {"source_system": "shop", "source_table": "tasks", "action_type": "task.done"}
_FILLED = """
INSERT INTO holdfast_archives VALUES ('a1', 2, 10, 'ff', 5);
INSERT INTO holdfast_archived VALUES ('s1', 1, 2, 'a1');
INSERT INTO holdfast_inbox VALUES ('shop', 'evt_1', 7);
INSERT INTO holdfast_sessions (id, agent, native_id, state, created_at, updated_at)
VALUES ('ses', 'codex', 'n', 'idle', 1, 2);
INSERT INTO holdfast_bindings VALUES ('telegram', '42', 'ses');
INSERT INTO holdfast_bookmarks VALUES ('ses', 'f', 0, 9, 3);
INSERT INTO holdfast_pauses VALUES ('contract', 'later', 3);
INSERT INTO holdfast_gates (address, failing_since, open_until, probe_owner, probe_until)
VALUES ('https://x.test/', 1, 2, 1, 9);
INSERT INTO holdfast_quotas VALUES ('contract:c', 7, 2);
INSERT INTO holdfast_readers VALUES ('sink:a', '*', 'beginning', NULL, 1, 5);
INSERT INTO holdfast_lagging (reader, stream, head, since, due_at, owner, token, lease_until)
VALUES ('sink:a', 's1', 9, 1, 1, 1, 77, 5);
INSERT INTO holdfast_cursors VALUES ('sink:a', 's1', 4, 5, NULL);
INSERT INTO holdfast_tokens VALUES ('tok_1', 'ci', 'read', 'abc', 1, NULL);
INSERT OR IGNORE INTO holdfast_history VALUES (1, 2, 3, 4, 5, 6, 7);
INSERT OR IGNORE INTO holdfast_contract_hours VALUES ('good', 1, 2, 3, 4, 5, 6, 7, 8);
INSERT INTO holdfast_checked_chains VALUES ('node-0001', 1, 2, 0, NULL);
"""


async def fill(url: str) -> None:
    """A store with rows in every table: work that ended well, badly, and not at all."""

    async def handler(event: Event) -> None:
        if event.payload % 50 == 0:
            raise Reject("no")

    store = open_store(url, keep=True)
    runtime = Runtime(store, load_config(None), None, handlers={"h": handler}, contracts=[GOOD])
    await store.contracts.put(LATER, "whsec_" + "a" * 32, headers={"X-Key": "1"})
    await runtime.start()
    for first in range(0, EVENTS, 500):
        numbers = range(first, first + 500)
        await store.events.append(
            [new_event("t", n, stream=f"s{n % 20}" if n % 2 else None, dedup_key=f"k{n}") for n in numbers]
        )
    async with asyncio.timeout(60):
        while (await store.operator.figures()).pending > EVENTS or (await store.operator.figures()).unrouted:
            await asyncio.sleep(0.02)
    await store.events.append([new_event("nobody.wants.this", 1)])
    async with asyncio.timeout(60):
        while not (await store.operator.figures()).unmatched:
            await asyncio.sleep(0.02)
    await runtime.stop()
    beside = open_store(url)
    for number in range(3):
        given = parse_receipt({**SOURCE, "source_id": str(number)}, "me")
        await append_receipt(beside, given, "api:admin", SystemClock(), SystemChance())
    # These wait for the router of the new store.
    await beside.events.append([new_event("waits", n, stream="s1") for n in range(1, 6)])
    await beside.close()
    raw = apsw.Connection(url.removeprefix("sqlite:///"))
    raw.execute(_FILLED)
    raw.execute("INSERT INTO holdfast_blobs VALUES (?, ?, 1)", (hashlib.sha256(b"\x00x").hexdigest(), b"\x00x"))
    for table in COPIED:
        assert raw.execute(f"SELECT count(*) FROM holdfast_{table.name}").fetchall() != [(0,)], table.name
    raw.close()


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("copy") / "original.db"
    asyncio.run(fill(f"sqlite:///{path}"))
    return path


@pytest.fixture
def source(original: Path, tmp_path: Path) -> str:
    path = tmp_path / "h.db"
    old, new = apsw.Connection(str(original)), apsw.Connection(str(path))
    with new.backup("main", old, "main") as backup:
        backup.step(-1)
    old.close()
    new.close()
    return f"sqlite:///{path}"


async def tables(server: Server, schema: str) -> set[str]:
    connection = await server.connect()
    try:
        return {
            row[0] for row in await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = $1", schema)
        }
    finally:
        await connection.close()


async def test_every_table_is_copied_or_has_a_reason(source: str, server: Server, schema: str) -> None:
    await copy_store(source, server.url(schema))
    listed = {table.name for table in COPIED} | set(NOT_COPIED)
    raw = apsw.Connection(source.removeprefix("sqlite:///"))
    names = {row[0] for row in raw.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    raw.close()
    own = {name.removeprefix("holdfast_") for name in names if name.startswith("holdfast_")}
    assert own | {"unrouted"} == listed
    assert await tables(server, schema) == listed - {"router", "again"}


@pytest.mark.parametrize("prefix", ["", PGMQ_PREFIX])
async def test_a_copied_store_continues_where_the_old_one_stopped(
    source: str, server: Server, schema: str, prefix: str
) -> None:
    seen: list[str] = []

    async def handler(event: Event) -> None:
        seen.append(event.type)

    report = await copy_store(source, server.url(schema, prefix))
    assert (report.rows["events"], report.resumed) == (EVENTS + 6, False)
    store = open_store(server.url(schema, prefix))
    faults = (await verify_receipts(store.receipts, rows=True)).faults
    assert {fault.kind for fault in faults} == {"row_without_receipt"}  # what was inserted by SQL, and nothing else
    assert {fault.message.split()[0] for fault in faults} <= {"contract", "token", "the"}
    head = await store.events.stream("s1")
    assert head is not None
    handlers = {"h": handler, "nowhere": handler}
    runtime = Runtime(store, load_config(None), None, handlers=handlers, contracts=[GOOD])
    await runtime.start()
    (new,) = await store.events.append([new_event("t", 1, stream="s1")])
    (old,) = await store.events.append([new_event("t", 1, stream="s1", dedup_key="k1")])
    assert (new.seq, old.seq, old.duplicate) == (head.head + 1, 1, True)
    async with asyncio.timeout(60):
        while (await store.operator.figures()).unrouted or (await store.operator.figures()).pending:
            await asyncio.sleep(0.05)
    assert {"waits", "t"} <= set(seen)
    figures = await store.operator.figures()
    assert (figures.events, figures.dead, figures.streams) == (EVENTS + 7, EVENTS // 50, 10)
    await runtime.stop()


async def test_the_old_store_refuses_events_and_names_the_new_one(source: str, server: Server, schema: str) -> None:
    await copy_store(source, server.url(schema))
    beside = open_store(source)
    for event in (new_event("t"), new_event("t", stream="s1")):
        with pytest.raises(StoreError, match=r"this store was moved to postgresql://.*; publish there"):
            await beside.events.append([event])
    await beside.close()
    with pytest.raises(StoreError, match="was moved to"):
        open_store(source, keep=True)
    cancel_copy(source)
    open_again = open_store(source, keep=True)
    await open_again.events.append([new_event("t")])
    await open_again.close()


async def test_a_daemon_must_be_stopped_and_the_target_must_be_empty(source: str, server: Server, schema: str) -> None:
    keeper = open_store(source, keep=True)
    with pytest.raises(KeeperHeld):
        await copy_store(source, server.url(schema))
    await keeper.close()
    target = open_store(server.url(schema))
    await target.events.append([new_event("t")])
    await target.close()
    with pytest.raises(BadInput, match="holds data already"):
        await copy_store(source, server.url(schema))
    beside = open_store(source)  # nothing was marked
    await beside.events.append([new_event("t")])
    await beside.close()


async def test_an_interrupted_copy_cannot_be_used_and_is_continued(
    source: str, server: Server, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    writes = 0
    write = copying._Copy._write

    async def failing(self: object, *values: object) -> None:
        nonlocal writes
        writes += 1
        if writes == 12:
            raise ConnectionResetError("gone")
        await write(self, *values)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(copying._Copy, "_write", failing)
        with pytest.raises(StoreError):
            await copy_store(source, server.url(schema))
    beside, target = open_store(source), open_store(server.url(schema))
    with pytest.raises(StoreError, match="is being moved to"):
        await beside.events.append([new_event("t")])
    with pytest.raises(StoreError, match="unfinished copy"):
        await target.events.append([new_event("t")])
    await beside.close()
    await target.close()
    assert (await copy_store(source, server.url(schema))).resumed
    assert (await copy_store(source, server.url(schema))).resumed, "a repetition changes nothing"


async def test_a_copy_that_differs_from_the_original_cannot_be_used(source: str, server: Server, schema: str) -> None:
    def spoil(what: str, done: int, total: int) -> None:
        if what == "verifying events" and done == total:
            assert server.psql(f"UPDATE {schema}.streams SET head = head + 1 WHERE id = 's1';").returncode == 0

    with pytest.raises(StoreError, match="the copy differs from the original in streams"):
        await copy_store(source, server.url(schema), spoil)
    target = open_store(server.url(schema))
    with pytest.raises(StoreError, match="unfinished copy"):
        await target.events.append([new_event("t")])
    await target.close()


@pytest.mark.slow
async def test_the_command_survives_kill_9(source: str, server: Server, schema: str, tmp_path: Path) -> None:
    await prepare_database(server.url(schema))
    connection = await server.connect()
    for table in ("events", "streams", "deliveries", "receipts"):
        async with connection.transaction():
            await connection.execute(f"LOCK TABLE {schema}.{table} IN SHARE MODE")  # the copy waits here
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "holdfast", "db", "copy", source, server.url(schema)),
                env={**os.environ, "HOLDFAST_HOME": str(tmp_path / "home")},
            )
            await until_blocked(connection)
            process.kill()
            await process.wait()
        assert await connection.fetchval(f"SELECT 1 FROM {schema}.meta WHERE key = 'copy'") == 1
    await connection.close()
    said = await asyncio.to_thread(run_cli, tmp_path / "home", "db", "copy", source, server.url(schema))
    assert said.code == 0, said.err
    assert "Copy continued and completed" in said.out
    assert f"{EVENTS + 6:,} events" in said.out


async def until_blocked(connection: asyncpg.Connection) -> None:
    look = (
        "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND application_name = 'holdfast')"
    )
    async with asyncio.timeout(60):
        while not await connection.fetchval(look):
            await asyncio.sleep(0.02)
            await connection.execute("SELECT pg_stat_clear_snapshot()")
