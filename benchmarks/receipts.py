"""What receipts cost: how much they add to a settle, and how many are verified in a second."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.fill import fill
from benchmarks.latency import fresh
from benchmarks.measure import Results
from benchmarks.orders import Failed
from benchmarks.server import Server
from benchmarks.sizes import Sizes
from holdfast.domain.address import KINDS
from holdfast.domain.delivery import Claim, Delivered, Settlement, settle
from holdfast.domain.receipt import NO_LINKS, Head, Link, leaf_lines, link
from holdfast.domain.retry import POLICIES
from holdfast.ledger.verifier import verify_receipts
from holdfast.store.open import is_postgres, migrate_store, open_store, sqlite_path
from holdfast.store.roles.deliveries import ClaimRequest, Served
from holdfast.store.roles.owners import Owner
from holdfast.store.sqlite import settling

BATCH = 250
PAGE = 10_000
CHAIN = "node-0001"
NOW_MS = 1_770_000_000_000


def measure(results: Results, folder: Path, server: Server | None, sizes: Sizes) -> None:
    for _ in range(sizes.times):
        with fresh("sqlite", folder, server, "receipts_settle") as url:
            fill(url, sizes.sqlite_drain)
            results.add("receipts.adds", asyncio.run(_adds(url, sizes.sqlite_drain)), "%")
    for store in ("sqlite", "postgres"):
        try:
            with fresh(store, folder, server, "receipts") as url:
                asyncio.run(_write(url, sizes.receipts))
                for _ in range(sizes.times):
                    name = "receipts.verify" if store == "sqlite" else "receipts.verify.postgres"
                    results.add(name, asyncio.run(_verify(url, sizes.receipts)), "/s")
        except (Failed, OSError) as error:
            results.miss(f"receipts.verify.{store}", str(error))


async def _verify(url: str, count: int) -> float:
    store = open_store(url)
    try:
        began = time.perf_counter()
        found = await verify_receipts(store.receipts)
        took = time.perf_counter() - began
    finally:
        await store.close()
    if not found.ok or found.transitions != count:
        raise Failed(f"{found.transitions} of {count} receipts were verified, with {len(found.faults)} faults")
    return count / took


async def _write(url: str, count: int) -> None:
    """One link for each receipt, which is the slowest case: a busy store has many receipts in one link."""
    await asyncio.to_thread(lambda: migrate_store(url, own=True))
    if is_postgres(url):
        await _write_postgres(url, count)
    else:
        _write_sqlite(url, count)


def _links(count: int) -> Iterator[Link]:
    head: Head = NO_LINKS
    for number in range(1, count + 1):
        leaf = (number, 1, f"evt_{NOW_MS:012x}{number:020x}", "delivered", None, 1)
        made = link(CHAIN, head, NOW_MS, leaf_lines([leaf], NOW_MS, "engine"))
        head = Head(made.seq, made.hash)
        yield made


def _write_sqlite(url: str, count: int) -> None:
    import sqlite3

    connection = sqlite3.connect(sqlite_path(url))
    last: Link | None = None

    def rows() -> Iterator[tuple[Any, ...]]:
        nonlocal last
        for last in _links(count):
            yield last.as_row()

    with connection:
        columns = "chain, seq, at, prev, root, h_self, leaves"
        connection.executemany(f"INSERT INTO holdfast_receipts ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?)", rows())
        assert last is not None
        connection.execute(
            "INSERT INTO holdfast_nodes (chain, seq, head) VALUES (?, ?, ?)", (CHAIN, last.seq, last.hash)
        )
    connection.close()


async def _write_postgres(url: str, count: int) -> None:
    import asyncpg

    from holdfast.store.postgres.place import parse_place

    place = parse_place(url)
    connection = await asyncpg.connect(place.dsn)
    columns = ["chain", "seq", "at", "prev", "root", "h_self", "leaves"]
    page: list[tuple[Any, ...]] = []
    for made in _links(count):
        page.append(made.as_row())
        if len(page) == PAGE or made.seq == count:
            await connection.copy_records_to_table("receipts", records=page, columns=columns, schema_name=place.schema)
            page.clear()
    insert = f"INSERT INTO {place.schema}.nodes (chain, seq, head) VALUES ($1, $2, $3)"
    await connection.execute(insert, CHAIN, made.seq, made.hash)
    await connection.close()


async def _adds(url: str, count: int) -> float:
    """Settle batches with and without receipts, alternately, and compare the times."""
    store = open_store(url, keep=True)
    owner = await store.owners.register()
    taken = {True: 0.0, False: 0.0}
    try:
        with_receipts = settling.write_link
        for number in range(count // BATCH):
            claims = (await store.deliveries.claim(_request(owner))).claims
            ends = [_end(claim) for claim in claims]
            receipts = number % 2 == 0
            settling.write_link = with_receipts if receipts else _nothing
            began = time.perf_counter()
            await store.deliveries.settle(owner, ends)
            taken[receipts] += time.perf_counter() - began
        settling.write_link = with_receipts
    finally:
        await store.close()
    return 100.0 * (taken[True] - taken[False]) / taken[False]


def _nothing(*arguments: object) -> None:
    pass


def _request(owner: Owner) -> ClaimRequest:
    return ClaimRequest(
        owner=owner.id,
        served=Served(frozenset({"handler"}), frozenset()),
        limit=BATCH,
        lease_ms=dict.fromkeys(KINDS, 60_000),
        capacity={},
        capacity_default=dict.fromkeys(KINDS, BATCH),
    )


def _end(claim: Claim) -> Settlement:
    after = settle(claim.delivery.attempts, Delivered(), POLICIES["hook"], NOW_MS, chance=0.0)
    return Settlement(claim, after, effects=(), detail=None, started_at_ms=NOW_MS, outcome="delivered")
