"""Reads a SQLite store from outside while no daemon has it open: read-only, without repairs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

from holdfast.domain.receipt import Head, Link
from holdfast.proof.kills.evidence import DeliveryRow, Ended, EventRow, LeaseRow, StoreRows
from holdfast.proof.kills.records import digest_json
from holdfast.store.sqlite.connection import ApswConnection, Connection
from holdfast.store.sqlite.receipts import read_operator_state

_LEASES = "SELECT delivery, owner FROM holdfast_ready WHERE token IS NOT NULL"
_LEASED = """
SELECT q.contract, e.id FROM holdfast_ready r JOIN holdfast_deliveries d ON d.id = r.delivery
JOIN holdfast_events e ON e.n = d.event JOIN holdfast_queues q ON q.id = d.queue WHERE r.token IS NOT NULL"""
_DUE = "SELECT count(*) FROM holdfast_ready WHERE token IS NOT NULL OR due_at <= ?"
_ENDED = "SELECT id, state, reason, generation FROM holdfast_deliveries WHERE state <> 'pending'"
# Events from source `holdfast` are the system's own: no client sent them.
_EVENTS = "SELECT id, stream, seq, dedup_key, payload FROM holdfast_events WHERE source <> 'holdfast' ORDER BY n"
_DELIVERIES = """
SELECT d.id, e.id, q.contract, d.lane, d.state, d.reason, d.attempts, d.generation, d.settled_at,
       d.handed_until IS NOT NULL OR EXISTS (SELECT 1 FROM holdfast_ready r WHERE r.delivery = d.id)
FROM holdfast_deliveries d JOIN holdfast_events e ON e.n = d.event JOIN holdfast_queues q ON q.id = d.queue
ORDER BY d.id"""
_ORPHANS = """
SELECT count(*) FROM holdfast_deliveries d
WHERE NOT EXISTS (SELECT 1 FROM holdfast_events e WHERE e.n = d.event)
   OR NOT EXISTS (SELECT 1 FROM holdfast_queues q WHERE q.id = d.queue)"""
_WAITING = "SELECT e.id FROM holdfast_{} u JOIN holdfast_events e ON e.n = u.event"
_HEADS = "SELECT chain, seq, head FROM holdfast_nodes WHERE chain <> 'substrate'"
_LINKS = "SELECT chain, seq, at, prev, root, h_self, leaves FROM holdfast_receipts ORDER BY chain, seq"


class CrashState(NamedTuple):
    """The state a killed daemon left: its leases, the work due, and the deliveries that had ended."""

    leased: frozenset[tuple[str, str]]
    due: int
    unrouted: int
    ended: dict[int, Ended]


def read_crash_state(path: Path, now_ms: int) -> CrashState:
    """Read the state after a kill."""
    connection = ApswConnection(path, readonly=True)
    try:
        leased = frozenset((row[0], row[1]) for row in connection.rows(_LEASED))
        due = int(connection.rows(_DUE, (now_ms,))[0][0])
        unrouted = int(connection.rows("SELECT count(*) FROM holdfast_unrouted")[0][0])
        return CrashState(leased, due, unrouted, {row[0]: Ended(*row[1:]) for row in connection.rows(_ENDED)})
    finally:
        connection.close()


def read_store(path: Path) -> StoreRows:
    """Everything the checker needs."""
    connection = ApswConnection(path, readonly=True)
    try:
        return read_rows(connection)
    finally:
        connection.close()


def read_rows(connection: Connection) -> StoreRows:
    """The same through an open connection."""
    faults = [str(row[0]) for row in connection.rows("PRAGMA integrity_check")]
    if faults != ["ok"]:
        raise ValueError(f"the database file is damaged: {faults[0]}")
    if connection.rows(_ORPHANS)[0][0]:
        raise ValueError("the store holds deliveries without their event or queue")
    return StoreRows(
        events=[EventRow._make((*row[:-1], digest_json(json.loads(row[-1])))) for row in connection.rows(_EVENTS)],
        deliveries=_deliveries(connection),
        leases=[LeaseRow(*row) for row in connection.rows(_LEASES)],
        unrouted=frozenset(row[0] for row in connection.rows(_WAITING.format("unrouted"))),
        unmatched=frozenset(row[0] for row in connection.rows(_WAITING.format("unmatched"))),
        heads={row[0]: Head(row[1], bytes(row[2])) for row in connection.rows(_HEADS)},
        links=[Link(r[0], r[1], r[2], *(bytes(part) for part in r[3:])) for r in connection.rows(_LINKS)],
        operator=read_operator_state(connection),
    )


def _deliveries(connection: Connection) -> list[DeliveryRow]:
    rows = connection.rows(_DELIVERIES)
    moving = {row[3] for row in rows if row[-1] and row[3] is not None}
    return [DeliveryRow._make((*row[:-1], bool(row[-1]) or row[3] in moving)) for row in rows]
