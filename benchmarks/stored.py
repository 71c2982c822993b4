"""Fills a store quickly with events that have ended, as they are after weeks of use: inserts the rows with SQL."""

from __future__ import annotations

import asyncio
import time

from holdfast.domain.address import parse_address
from holdfast.domain.contract import Contract, Criterion
from holdfast.domain.session import SessionChange, SessionState
from holdfast.domain.store_url import is_postgres
from holdfast.store.open import open_store, sqlite_path
from holdfast.store.roles.history import ContractHour, Minute

CONTRACTS = 20
SESSIONS = 500
STEP = 250_000
DEAD_EACH = 2000  # one of so many deliveries is dead
UNMATCHED_EACH = 10
PAYLOAD = '{"total":"19.90","items":[{"sku":"TEA-EARL-GREY","quantity":2}],"note":"' + "x" * 60 + '"}'

# The number of an event decides everything about it: half of them are in streams of ten, one of ten matched nothing.
_SQLITE = (
    """
    WITH RECURSIVE k(i) AS (SELECT :first UNION ALL SELECT i + 1 FROM k WHERE i < :last)
    INSERT INTO holdfast_events (id, stream, seq, source, type, timestamp, accepted_at, properties, payload)
    SELECT printf('evt_%012x%020x', :at_ms + i, i), CASE WHEN i % 2 THEN 'order:' || (i / 20) END,
           CASE WHEN i % 2 THEN (i % 20 + 1) / 2 ELSE 1 END, 'shop' || (i % 4), 'order.step' || (i % 8), :stamp,
           :at_ms + i, printf('{"region":"eu","n":"%d"}', i), :payload FROM k""",
    """
    INSERT INTO holdfast_streams (id, head, created_at)
    SELECT stream, max(seq), min(accepted_at) FROM holdfast_events
    WHERE n BETWEEN :first AND :last AND stream IS NOT NULL GROUP BY stream
    ON CONFLICT (id) DO UPDATE SET head = max(head, excluded.head)""",
    """
    INSERT INTO holdfast_deliveries (event, queue, state, reason, attempts, created_at, settled_at, last_error)
    SELECT n, n % :contracts + 1, CASE WHEN n % :dead = 1 THEN 'dead' ELSE 'delivered' END,
           CASE WHEN n % :dead = 1 THEN 'rejected' END, 1, accepted_at, accepted_at + 20,
           CASE WHEN n % :dead = 1 THEN 'answered 404: the receiver refuses this event' END
    FROM holdfast_events WHERE n BETWEEN :first AND :last AND n % :unmatched""",
    """
    INSERT INTO holdfast_unmatched (event)
    SELECT n FROM holdfast_events WHERE n BETWEEN :first AND :last AND n % :unmatched = 0""",
    """
    INSERT INTO holdfast_attempts (delivery, generation, attempt, started_at, ended_at, outcome, error)
    SELECT id, 1, 1, created_at, settled_at, 'dead', last_error FROM holdfast_deliveries
    WHERE event BETWEEN :first AND :last AND state = 'dead'""",
    """
    WITH RECURSIVE k(i) AS (SELECT :first / 100 + 1 UNION ALL SELECT i + 1 FROM k WHERE i < :last / 100)
    INSERT INTO holdfast_receipts (chain, seq, at, prev, root, h_self, leaves)
    SELECT 'node-0001', i, :at_ms + i * 100, randomblob(32), randomblob(32), randomblob(32), randomblob(9000) FROM k""",
    "UPDATE holdfast_router SET place = :last",
    """
    UPDATE holdfast_nodes SET seq = :last / 100,
      head = (SELECT h_self FROM holdfast_receipts WHERE chain = 'node-0001' ORDER BY seq DESC LIMIT 1)
    WHERE chain = 'node-0001'""",
    """
    UPDATE holdfast_counts SET events = :last, unmatched = :last / :unmatched""",
)
_POSTGRES = (
    """
    INSERT INTO {schema}.events (id, stream, seq, source, type, timestamp, accepted_at, properties, payload)
    SELECT 'evt_' || lpad(to_hex({at_ms} + i), 12, '0') || lpad(to_hex(i), 20, '0'),
           CASE WHEN i % 2 = 1 THEN 'order:' || (i / 20) END, CASE WHEN i % 2 = 1 THEN (i % 20 + 1) / 2 ELSE 1 END,
           'shop' || (i % 4), 'order.step' || (i % 8), '{stamp}', {at_ms} + i,
           '{{"region":"eu","n":"' || i || '"}}', '{payload}'
    FROM generate_series({first}::bigint, {last}) i""",
    """
    INSERT INTO {schema}.streams (id, head, created_at)
    SELECT stream, max(seq), min(accepted_at) FROM {schema}.events
    WHERE n BETWEEN {first} AND {last} AND stream IS NOT NULL GROUP BY stream
    ON CONFLICT (id) DO UPDATE SET head = greatest(streams.head, excluded.head)""",
    """
    INSERT INTO {schema}.deliveries (event, queue, state, reason, attempts, created_at, settled_at, last_error)
    SELECT n, n % {contracts} + 1, CASE WHEN n % {dead} = 1 THEN 'dead' ELSE 'delivered' END,
           CASE WHEN n % {dead} = 1 THEN 'rejected' END, 1, accepted_at, accepted_at + 20,
           CASE WHEN n % {dead} = 1 THEN 'answered 404: the receiver refuses this event' END
    FROM {schema}.events WHERE n BETWEEN {first} AND {last} AND n % {unmatched} <> 0""",
    """
    INSERT INTO {schema}.unmatched (event)
    SELECT n FROM {schema}.events WHERE n BETWEEN {first} AND {last} AND n % {unmatched} = 0""",
    """
    INSERT INTO {schema}.attempts (delivery, generation, attempt, started_at, ended_at, outcome, error)
    SELECT id, 1, 1, created_at, settled_at, 'dead', last_error FROM {schema}.deliveries
    WHERE event BETWEEN {first} AND {last} AND state = 'dead'""",
    """
    INSERT INTO {schema}.receipts (chain, seq, at, prev, root, h_self, leaves)
    SELECT 'node-0001', i, {at_ms} + i * 100, sha256(i::text::bytea), sha256(i::text::bytea), sha256(i::text::bytea),
           repeat('x', 9000)::bytea FROM generate_series({first}::bigint / 100 + 1, {last} / 100) i""",
    """
    UPDATE {schema}.nodes SET seq = {last} / 100,
      head = (SELECT h_self FROM {schema}.receipts WHERE chain = 'node-0001' ORDER BY seq DESC LIMIT 1)
    WHERE chain = 'node-0001'""",
    "UPDATE {schema}.counts SET events = {last}, unmatched = {last} / {unmatched}",
)


def fill_stored(url: str, total: int, *, address: str | None = None, schema: str = "holdfast") -> None:
    """A new store with `total` events that were delivered, are dead or matched nothing.

    `address` and `schema`: where a PostgreSQL store is whose URL names a schema.
    """
    asyncio.run(_prepare(url))
    if is_postgres(url):
        asyncio.run(_fill_postgres(address or url, schema, total))
    else:
        _fill_sqlite(url, total)
    asyncio.run(_finish(url))


async def _prepare(url: str) -> None:
    """Contracts and a chain. Their queues have the numbers from 1 on."""
    store = open_store(url, keep=True)
    for number in range(CONTRACTS):
        wanted = Criterion(pattern=f"order.step{number}")
        await store.contracts.put(
            Contract(f"contract-{number:02}", parse_address(f"https://h{number}.example.com/"), type_criterion=wanted),
            None,
        )
    await store.owners.register()
    await store.close()


def _fill_sqlite(url: str, total: int) -> None:
    import apsw

    connection = apsw.Connection(str(sqlite_path(url)))
    connection.execute("PRAGMA synchronous = OFF")
    for first in range(1, total + 1, STEP):
        with connection:
            for statement in _SQLITE:
                connection.execute(statement, _values(first, min(first + STEP - 1, total)))
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.execute("PRAGMA optimize")
    connection.close()


async def _fill_postgres(address: str, schema: str, total: int) -> None:
    import asyncpg

    connection = await asyncpg.connect(address)
    for first in range(1, total + 1, STEP):
        values = _values(first, min(first + STEP - 1, total))
        for statement in _POSTGRES:
            await connection.execute(statement.format(schema=schema, **values))
    await connection.execute("VACUUM ANALYZE")
    await connection.execute("CHECKPOINT")
    await connection.close()


def _values(first: int, last: int) -> dict[str, object]:
    at_ms = time.time_ns() // 10**6 - last
    return {
        "first": first, "last": last, "at_ms": at_ms, "payload": PAYLOAD, "contracts": CONTRACTS, "dead": DEAD_EACH,
        "unmatched": UNMATCHED_EACH, "stamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at_ms / 1000)),
    }  # fmt: skip


async def _finish(url: str) -> None:
    """Sessions, and the counts of the last day."""
    store = open_store(url, keep=True)
    states = list(SessionState)
    for number in range(SESSIONS):
        await store.sessions.change(
            SessionChange(
                f"claude-{number}", "claude", str(number), state=states[number % len(states)], title="A title"
            )
        )
    now_s = int(time.time())
    for minute in range(now_s // 60 - 24 * 60, now_s // 60):
        await store.history.add(Minute(minute, 100 + minute % 50, 90, 1, 2, 30, 4))
    hours = range(now_s // 3600 - 23, now_s // 3600 + 1)
    names = [f"contract-{number:02}" for number in range(CONTRACTS)]
    await store.history.add_contracts(
        [ContractHour(name, hour, 100, 1, 0, 5, 9000) for name in names for hour in hours]
    )
    await store.close()
