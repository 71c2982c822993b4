"""Access to a PostgreSQL store from outside: create, read and drop the campaign's schema."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import asyncpg

from holdfast.domain.receipt import Head, Link
from holdfast.proof.kills.audit import CHANGES, INSTALL, NOTES, Change, Note, fold, watch
from holdfast.proof.kills.evidence import Attempt, DeliveryRow, Ended, EventRow, Holders, LeaseRow, StoreRows
from holdfast.proof.kills.records import digest_json
from holdfast.proof.kills.snapshot import CrashState
from holdfast.store.pgmq.queue_admin import move_queue
from holdfast.store.pgmq.statements import queue_name
from holdfast.store.postgres.place import in_schema, parse_place
from holdfast.store.postgres.pooled_connection import PooledConnection
from holdfast.store.roles.queue_admin import QueueKind

CONNECT_S = 30.0
_MINE = "r.owner = (SELECT max(id) FROM {schema}.owners WHERE pid = $1)"
_LEASED = f"""
SELECT q.contract, e.id FROM {{schema}}.ready r JOIN {{schema}}.deliveries d ON d.id = r.delivery
JOIN {{schema}}.events e ON e.n = d.event JOIN {{schema}}.queues q ON q.id = d.queue
WHERE r.token IS NOT NULL AND {_MINE}"""
_COUNTS = "SELECT (SELECT count(*) FROM {schema}.ready), (SELECT count(*) FROM {schema}.unrouted)"
_ENDED = "SELECT id, state, reason, generation FROM {schema}.deliveries WHERE state <> 'pending'"
_EVENTS = "SELECT id, stream, seq, dedup_key, payload FROM {schema}.events WHERE source <> 'holdfast' ORDER BY n"
_DELIVERIES = """
SELECT d.id, e.id, q.contract, d.lane, d.state, d.reason, d.attempts, d.generation, d.settled_at,
       d.handed_until IS NOT NULL OR EXISTS (SELECT FROM {schema}.ready r WHERE r.delivery = d.id)
FROM {schema}.deliveries d JOIN {schema}.events e ON e.n = d.event JOIN {schema}.queues q ON q.id = d.queue
ORDER BY d.id"""
_ORPHANS = """
SELECT count(*) FROM {schema}.deliveries d
WHERE NOT EXISTS (SELECT FROM {schema}.events e WHERE e.n = d.event)
   OR NOT EXISTS (SELECT FROM {schema}.queues q WHERE q.id = d.queue)"""
_WAITING = "SELECT e.id FROM {schema}.TABLE u JOIN {schema}.events e ON e.n = u.event"
_HEADS = "SELECT chain, seq, head FROM {schema}.nodes WHERE chain <> 'substrate'"
_LINKS = "SELECT chain, seq, at, prev, root, h_self, leaves FROM {schema}.receipts ORDER BY chain, seq"
_LEASES = "SELECT delivery, owner FROM {schema}.ready WHERE token IS NOT NULL"
_BACKLOG = """
SELECT (SELECT count(*) FROM {schema}.unrouted)
     + (SELECT count(*) FROM {schema}.deliveries WHERE state = 'pending')"""
_BLOCKED = """
SELECT DISTINCT waiting.application_name FROM pg_stat_activity waiting
CROSS JOIN LATERAL unnest(pg_blocking_pids(waiting.pid)) holder JOIN pg_stat_activity held ON held.pid = holder
WHERE held.application_name = $1"""
_SESSIONS = "SELECT pid FROM pg_stat_activity WHERE starts_with(application_name, $1) ORDER BY pid"


class Database:
    """The schema that a store URL names. Every call opens its own connection: earlier ones may have been cut."""

    def __init__(self, url: str) -> None:
        self.url, self._place = url, parse_place(url)

    @property
    def schema(self) -> str:
        return self._place.schema

    @property
    def _queue(self) -> str:
        return queue_name(self.schema)

    def prepare(self) -> None:
        """Create the store's tables, and the tables and triggers that record leases."""
        from holdfast.store.open import migrate_store

        migrate_store(self.url, own=True, driver="apsw")
        self.run(INSTALL + watch(QueueKind.NATIVE, self.schema))

    def drop(self) -> None:
        if self.rows(
            "SELECT 1 FROM pg_catalog.pg_tables WHERE schemaname = 'pgmq' AND tablename = $1", f"q_{self._queue}"
        ):
            self.run(f"DROP SCHEMA {self.schema} CASCADE; SELECT pgmq.drop_queue('{self._queue}')")
        self.run(f"SET client_min_messages = warning; DROP SCHEMA IF EXISTS {self.schema} CASCADE")

    def move_queue(self) -> None:
        """Move the ready queue into pgmq or back, with the triggers that record leases."""
        asyncio.run(self._move_queue())

    def run(self, text: str) -> None:
        asyncio.run(self._run(text))

    def rows(self, text: str, *values: object) -> list[Any]:
        return asyncio.run(self._rows(text, *values))

    def sessions(self, tag: str) -> list[int]:
        """The pids of the backends of sessions whose name starts with `tag`."""
        return [row[0] for row in self.rows(_SESSIONS, tag)]

    def end_sessions(self, pids: list[int]) -> int:
        return len(self.rows("SELECT pg_terminate_backend(pid) FROM unnest($1::integer[]) pid", pids))

    def read_crash_state(self, pid: int) -> CrashState:
        """The state a daemon left that was just killed."""
        leased = frozenset((row[0], row[1]) for row in self.rows(_LEASED, pid))
        ((due, unrouted),) = self.rows(_COUNTS)
        return CrashState(leased, due, unrouted, {})

    def ended(self) -> dict[int, Ended]:
        """Every committed end: no crash may undo one."""
        return {row[0]: Ended(*row[1:]) for row in self.rows(_ENDED)}

    def backlog(self) -> int:
        """The number of unrouted events and pending deliveries."""
        return int(self.rows(_BACKLOG)[0][0])

    def blocked_by(self, tag: str) -> set[str]:
        """The sessions waiting for a lock held by sessions of this name."""
        return {row[0] for row in self.rows(_BLOCKED, tag)}

    def business(self) -> frozenset[str]:
        return frozenset(row[0] for row in self.rows("SELECT key FROM {schema}.prove_orders"))

    def read_store(self) -> StoreRows:
        """Everything the checker needs."""
        if self.rows(_ORPHANS)[0][0]:
            raise ValueError("the store holds deliveries without their event or queue")
        rows = [tuple(row) for row in self.rows(_DELIVERIES)]
        moving = {row[3] for row in rows if row[-1] and row[3] is not None}
        return StoreRows(
            events=[EventRow._make((*row[:4], digest_json(json.loads(row[4])))) for row in self.rows(_EVENTS)],
            deliveries=[DeliveryRow._make((*row[:-1], row[-1] or row[3] in moving)) for row in rows],
            leases=[LeaseRow(*row) for row in self.rows(_LEASES)],
            unrouted=frozenset(row[0] for row in self.rows(_WAITING.replace("TABLE", "unrouted"))),
            unmatched=frozenset(row[0] for row in self.rows(_WAITING.replace("TABLE", "unmatched"))),
            heads={row[0]: Head(row[1], row[2]) for row in self.rows(_HEADS)},
            links=[Link(*row) for row in self.rows(_LINKS)],
        )

    def read_holders(self, links: list[Link], lease_ms: int) -> Holders:
        """The history of all leases."""
        changes = [Change(*row) for row in self.rows(CHANGES)]
        leases, settles = fold(changes, [Note(*row) for row in self.rows(NOTES)], links)
        attempts = [Attempt(*row) for row in self.rows("SELECT delivery, attempt, started_at FROM {schema}.attempts")]
        return Holders(leases, settles, attempts, lease_ms, self.clock_slack_ms())

    def clock_slack_ms(self) -> int:
        """How far the server's clock may be off from the local one."""
        before = time.time()
        ((there,),) = self.rows("SELECT extract(epoch FROM clock_timestamp())::float8")
        after = time.time()
        return 5 + round(1000 * max(0.0, before - float(there), float(there) - after))

    async def _move_queue(self) -> None:
        raw = await asyncpg.connect(self._place.dsn, timeout=CONNECT_S)
        connection = PooledConnection(raw, self.schema)
        try:
            async with raw.transaction():
                kind = await connection.value("SELECT value FROM {schema}.meta WHERE key = 'ready_queue'")
                to = QueueKind.NATIVE if kind == QueueKind.PGMQ else QueueKind.PGMQ
                if to is QueueKind.NATIVE:  # the rows that come back are no new leases
                    await connection.script("SET LOCAL session_replication_role = replica")
                await move_queue(connection, self.schema, to, None, time.time_ns() // 1_000_000)
                if to is QueueKind.PGMQ:
                    await connection.script(watch(to, self.schema))
        finally:
            await raw.close(timeout=CONNECT_S)

    async def _run(self, text: str) -> None:
        connection = await asyncpg.connect(self._place.dsn, timeout=CONNECT_S)
        try:
            await connection.execute(in_schema(text, self.schema))
        finally:
            await connection.close(timeout=CONNECT_S)

    async def _rows(self, text: str, *values: object) -> list[Any]:
        connection = await asyncpg.connect(self._place.dsn, timeout=CONNECT_S)
        try:
            return list(await connection.fetch(in_schema(text, self.schema), *values))
        finally:
            await connection.close(timeout=CONNECT_S)


def with_schema(url: str, schema: str) -> str:
    """The same database with another schema.

    >>> with_schema("postgresql://ann@db/app?schema=jobs", "hf_prove_1")
    'postgresql://ann@db/app?schema=hf_prove_1'
    """
    dsn = parse_place(url).dsn
    return f"{dsn}{'&' if '?' in dsn else '?'}schema={schema}"
