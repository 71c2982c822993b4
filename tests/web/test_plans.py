"""What the screens read: no statement scans a table that grows with the number of events, on either store."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from holdfast.config.config import load_config
from holdfast.domain.scopes import ADMIN
from holdfast.net.guard import Guard
from holdfast.operations.context import OperationsContext
from holdfast.operations.verbs import Operations
from holdfast.ports import SystemChance, SystemClock
from holdfast.store.open import open_store
from holdfast.store.postgres.place import in_schema
from holdfast.store.postgres.pooled_connection import PooledConnection
from holdfast.store.sqlite.connection import ApswConnection
from holdfast.surfaces.web.access import Cookies
from holdfast.surfaces.web.site import Site
from postgres import Server

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks.stored import fill_stored  # noqa: E402
from benchmarks.web import SCREENS  # noqa: E402

pytest_plugins = ("postgres",)

EVENTS = 30_000
READ_MAX = 3000
"""Rows of one large table that one statement may read, of ten times as many."""
LARGE = ("events", "deliveries", "attempts", "receipts", "streams", "dedup", "unmatched", "sessions", "inbox", "blobs")
FEW = ("deliveries_dead", "deliveries_dead_by_queue", "deliveries_by_lane", "deliveries_handed", "sessions_by_state")
"""Indexes of a few rows of a large table: what is dead, pending in a lane, or waits for a confirmation. Sessions are
counted by their state in a narrow index."""
BOUNDED = ("/events?q=region%3Deu",)  # a search reads a fixed number of events at most, whatever is stored

Statement = tuple[str, tuple[Any, ...]]


async def show(site: Site, path: str) -> str:
    """One screen, for an administrator."""
    where, _, query = path.partition("?")
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b""}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http", "method": "GET", "path": where, "query_string": query.encode(), "headers": [],
        "holdfast.scope": ADMIN, "root_path": "",
    }  # fmt: skip
    await site(scope, receive, send)
    body = b"".join(message.get("body", b"") for message in sent).decode()
    assert sent[0]["status"] == 200, (path, body)
    return body


@asynccontextmanager
async def serving(url: str) -> AsyncIterator[tuple[Site, str]]:
    """The page over a store, and an old event with a dead delivery."""
    store = open_store(url, keep=True)
    config, owner = load_config(None), await store.owners.register()
    operations = Operations(
        OperationsContext(store, owner, Guard(()), config.policies, config.retention, SystemClock(), SystemChance())
    )
    try:
        letters = await operations.deliveries.find(state="dead", limit=50)
        yield Site(operations, Cookies(lambda: "secret")), letters.items[-1].event_id
    finally:
        await store.close()


async def read_all(url: str, recorded: list[Statement]) -> dict[str, list[Statement]]:
    """The statements of every screen."""
    found = {}
    async with serving(url) as (site, event):
        for path in (*SCREENS.values(), "/contracts/new", "/contracts/contract-01/edit", "/sessions?state=waiting"):
            site._trouble.forget()  # each screen looks up what needs attention
            recorded.clear()
            await show(site, path.format(event=event))
            found[path] = list(dict.fromkeys(recorded))
            assert found[path], path
    return found


def recording(recorded: list[Statement], real: Callable[..., Any]) -> Callable[..., Any]:
    def record(self: Any, text: str, *values: Any) -> Any:
        recorded.append((text, tuple(map(_frozen, values))))
        return real(self, text, *values)

    return record


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


@pytest.fixture(scope="module")
def sqlite(tmp_path_factory: pytest.TempPathFactory) -> str:
    url = f"sqlite:///{tmp_path_factory.mktemp('page')}/large.db"
    run_apart(fill_stored, url, EVENTS)
    return url


def run_apart(work: Callable[..., None], *arguments: Any) -> None:
    """In another thread, because this one may run an event loop."""
    with ThreadPoolExecutor(1) as thread:
        thread.submit(work, *arguments).result()


async def test_on_sqlite_no_statement_of_a_screen_scans_a_large_table(
    sqlite: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded: list[Statement] = []
    for name in ("rows", "each"):
        monkeypatch.setattr(ApswConnection, name, recording(recorded, getattr(ApswConnection, name)))
    screens = await read_all(sqlite, recorded)
    monkeypatch.undo()
    connection = ApswConnection(Path(sqlite.removeprefix("sqlite:///")))
    faults = {
        (path, step, text)
        for path, statements in screens.items()
        for text, values in statements
        for step in scans(connection, text, values)
    }
    connection.close()
    assert faults == set()


def scans(connection: ApswConnection, text: str, values: tuple[Any, ...]) -> Iterator[str]:
    """The steps of a plan that read all of a large table."""
    names = dict(re.findall(r"holdfast_(\w+)(?: AS)? ([a-z])\b", text))
    alias = {short: table for table, short in names.items()}
    for row in connection.rows(f"EXPLAIN QUERY PLAN {text}", values[0] if values else ()):
        found = re.match(r"SCAN (?:holdfast_)?(\w+)(?: USING (?:COVERING )?INDEX holdfast_(\w+))?", str(row[3]))
        if found is None or " VIRTUAL TABLE" in row[3]:
            continue
        table = alias.get(found[1], found[1])
        if table in LARGE and found[2] not in FEW:
            yield str(row[3])


async def test_on_postgres_no_statement_of_a_screen_reads_much_of_a_large_table(
    server: Server, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = server.url(schema)
    recorded: list[Statement] = []
    run_apart(partial(fill_stored, url, EVENTS, address=server.address, schema=schema))
    for name in ("rows", "value"):
        monkeypatch.setattr(PooledConnection, name, recording(recorded, getattr(PooledConnection, name)))
    screens = await read_all(url, recorded)
    monkeypatch.undo()
    connection = await server.connect()
    faults = []
    for path, statements in screens.items():
        for text, values in statements:
            named = in_schema(text, schema)
            lists = [list(value) if isinstance(value, tuple) else value for value in values]
            answer = await connection.fetchval(f"EXPLAIN (ANALYZE, FORMAT JSON) {named}", *lists)
            for table, rows in rows_read(json.loads(answer)[0]["Plan"]).items():
                if rows > READ_MAX and path not in BOUNDED:
                    faults.append((path, table, rows, text))
    await connection.close()
    assert faults == []


def rows_read(plan: dict[str, Any]) -> dict[str, int]:
    """How many rows of each large table a plan has read, those that a filter removed among them."""
    found: dict[str, int] = {}
    for node in nodes(plan):
        table = node.get("Relation Name")
        if table in LARGE:
            read = node["Actual Rows"] + node.get("Rows Removed by Filter", 0)
            found[table] = found.get(table, 0) + round(read * node["Actual Loops"])
    return found


def nodes(plan: dict[str, Any]) -> Iterable[dict[str, Any]]:
    yield plan
    inner: Sequence[dict[str, Any]] = plan.get("Plans", ())
    for one in inner:
        yield from nodes(one)
