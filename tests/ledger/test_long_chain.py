"""A long chain that nobody touched verifies clean, and one change in its middle is found where it is.

20,000 receipts; `HOLDFAST_LONG_TESTS=1` makes it a million on each store.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from holdfast.domain.receipt import NO_LINKS, Head, leaf_lines, link
from holdfast.ledger.verifier import Verification, verify_receipts
from holdfast.store.open import migrate_store, open_store
from postgres import end_schema, fresh_schema, newest, start
from vandal import Vandal

pytest_plugins = ("postgres",)

LENGTH = 1_000_000 if os.environ.get("HOLDFAST_LONG_TESTS") else 20_000
PAGE = 20_000
CHAIN, AT_MS = "node-0001", 1_770_000_000_000
LINK = ("chain", "seq", "at", "prev", "root", "h_self", "leaves")
EVENT = ("id", "source", "type", "timestamp", "accepted_at", "payload")
DELIVERY = ("event", "queue", "state", "attempts", "created_at", "settled_at")

Rows = Iterator[tuple[Any, ...]]


def links() -> Rows:
    """One receipt in each link: every delivery was delivered at its first attempt."""
    head = NO_LINKS
    for number in range(1, LENGTH + 1):
        leaf = (number, 1, f"evt_{number}", "delivered", None, 1)
        made = link(CHAIN, head, AT_MS + number, leaf_lines([leaf], AT_MS + number, "engine"))
        head = Head(made.seq, made.hash)
        yield made.as_row()


def events() -> Rows:
    for number in range(1, LENGTH + 1):
        yield f"evt_{number}", "app", "t", "2026-01-01T00:00:00.000Z", AT_MS, "null"


def deliveries() -> Rows:
    for number in range(1, LENGTH + 1):
        yield number, 1, "delivered", 1, AT_MS, AT_MS + number


TABLES = {"receipts": (LINK, links), "events": (EVENT, events), "deliveries": (DELIVERY, deliveries)}


def fill_sqlite(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        for name, (columns, rows) in TABLES.items():
            marks = ", ".join("?" * len(columns))
            connection.executemany(f"INSERT INTO holdfast_{name} ({', '.join(columns)}) VALUES ({marks})", rows())
    connection.close()


async def fill_postgres(address: str, schema: str) -> None:
    connection = await asyncpg.connect(address)
    for name, (columns, made) in TABLES.items():
        rows = made()
        while page := list(islice(rows, PAGE)):
            await connection.copy_records_to_table(name, records=page, columns=columns, schema_name=schema)
    await connection.close()


async def verify(url: str) -> Verification:
    store = open_store(url)
    try:
        return await verify_receipts(store.receipts, rows=True)
    finally:
        await store.close()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_a_long_chain(kind: str, tmp_path: Path) -> None:
    schema, server = fresh_schema(), start(newest()) if kind == "postgres" else None
    if server is None:
        url = f"sqlite:///{tmp_path}/store.db"
        migrate_store(url, own=True)
        fill_sqlite(tmp_path / "store.db")
        vandal = Vandal(sqlite=tmp_path / "store.db")
    else:
        url = server.url(schema)
        migrate_store(url, own=True)
        await fill_postgres(server.address, schema)
        vandal = Vandal(postgres=(server.address, schema))
    await vandal.run("INSERT INTO {t}queues (address, kind) VALUES ('handler:h', 'handler')")
    last = await vandal.run("SELECT h_self FROM {t}receipts WHERE seq = ?", LENGTH)
    await vandal.run("INSERT INTO {t}nodes (chain, seq, head) VALUES (?, ?, ?)", CHAIN, LENGTH, last[0][0])
    found = await verify(url)
    assert (found.faults, found.links, found.transitions, found.rows) == ([], LENGTH, LENGTH, LENGTH)
    middle = LENGTH // 2
    await vandal.run("UPDATE {t}receipts SET leaves = ? WHERE seq = ?", b"{}", middle)
    await vandal.run("UPDATE {t}deliveries SET attempts = 2 WHERE id = ?", middle + 7)
    faults = [(fault.seq, fault.kind) for fault in (await verify(url)).faults]
    assert faults == [
        (middle, "edited_leaf"),
        (middle, "malformed"),
        (0, "row_without_receipt"),
        (middle + 7, "row_differs"),
    ]
    if server is not None:
        await end_schema(server, schema)
