"""Fills a large backlog quickly: inserts with SQL the rows that accepting and routing would write."""

from __future__ import annotations

import asyncio
import time

from holdfast.domain.address import parse_address
from holdfast.domain.contract import Contract, Criterion
from holdfast.store.open import is_postgres, open_store, sqlite_path

PAYLOAD = '{"text":"' + "x" * 88 + '"}'
STEP = 250_000

# Ids start with the time and end with random characters, as those of `make_id` do.
_SQLITE = (
    """
    WITH RECURSIVE k(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM k WHERE i < :more)
    INSERT INTO holdfast_events (id, source, type, timestamp, accepted_at, payload)
    SELECT printf('evt_%012x', :now_ms) || printf('%08x', i) || lower(hex(randomblob(6))), 'app', 'bench.event',
           :stamp, :now_ms, :payload FROM k""",
    """
    INSERT INTO holdfast_deliveries (event, queue, created_at)
    SELECT u.event, (SELECT id FROM holdfast_queues WHERE contract = 'bench'), :now_ms
    FROM holdfast_unrouted u ORDER BY u.event""",
    """
    INSERT INTO holdfast_ready (delivery, queue, due_at)
    SELECT d.id, d.queue, :now_ms FROM holdfast_unrouted u JOIN holdfast_deliveries d ON d.event = u.event
    ORDER BY d.id""",
    "UPDATE holdfast_router SET place = (SELECT max(n) FROM holdfast_events)",
    "UPDATE holdfast_counts SET events = events + :more",
)
_POSTGRES = """
    WITH e AS (
      INSERT INTO holdfast.events (id, source, type, timestamp, accepted_at, payload)
      SELECT 'evt_' || lpad(to_hex($2::bigint), 12, '0') || lpad(to_hex(i), 8, '0')
             || substr(replace(gen_random_uuid()::text, '-', ''), 21), 'app', 'bench.event', $3, $2, $4
      FROM generate_series(1, $1::int) i RETURNING n
    ), d AS (
      INSERT INTO holdfast.deliveries (event, queue, created_at)
      SELECT n, (SELECT id FROM holdfast.queues WHERE contract = 'bench'), $2 FROM e ORDER BY n RETURNING id, queue
    )
    INSERT INTO holdfast.ready (delivery, queue, due_at) SELECT id, queue, $2 FROM d ORDER BY id"""


def contract() -> Contract:
    return Contract(
        "bench", parse_address("handler:bench"), type_criterion=Criterion(pattern="bench.*"), source="programmatic"
    )


def fill(url: str, total: int, *, prepared: bool = False) -> None:
    """Bring the backlog of the contract `bench` up to `total` pending deliveries. `prepared`: its queue exists."""
    if not prepared:
        asyncio.run(_prepare(url))
    if is_postgres(url):
        asyncio.run(_fill_postgres(url, total))
    else:
        _fill_sqlite(url, total)


async def _prepare(url: str) -> None:
    store = open_store(url, keep=True)
    await store.contracts.put(contract(), None)
    await store.close()


def _fill_sqlite(url: str, total: int) -> None:
    import apsw

    connection = apsw.Connection(str(sqlite_path(url)))
    connection.execute("PRAGMA synchronous = NORMAL")
    pending = next(connection.execute("SELECT count(*) FROM holdfast_ready"))[0]
    for start in range(pending, total, STEP):
        with connection:
            for statement in _SQLITE:
                connection.execute(statement, _values(min(STEP, total - start)))
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()


async def _fill_postgres(url: str, total: int) -> None:
    import asyncpg

    connection = await asyncpg.connect(url)
    pending = await connection.fetchval("SELECT count(*) FROM holdfast.ready")
    for start in range(pending, total, STEP):
        values = _values(min(STEP, total - start))
        await connection.execute(_POSTGRES, values["more"], values["now_ms"], values["stamp"], values["payload"])
        await connection.execute("UPDATE holdfast.counts SET events = events + $1", values["more"])
    await connection.execute("VACUUM ANALYZE holdfast.ready, holdfast.deliveries, holdfast.events")
    await connection.execute("CHECKPOINT")
    await connection.close()


def _values(more: int) -> dict[str, object]:
    now_ms = time.time_ns() // 10**6
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now_ms / 1000))
    return {"more": more, "now_ms": now_ms, "stamp": stamp, "payload": PAYLOAD}
