"""Negative controls: known faults that can be injected into the daemon, to show that a campaign detects them.

A proof that cannot fail proves nothing. Each fault replaces SQL statements of a store with faulty ones.
"""

from __future__ import annotations

from importlib import import_module

FAULTS: dict[str, dict[str, str]] = {
    # Recovery looks only at unclaimed deliveries, so those claimed by a dead process are never delivered.
    "stranding": {
        "lease_reclaim": """
            UPDATE holdfast_ready SET owner = NULL, token = NULL, lease_until = NULL
            WHERE token IS NULL AND ?1 IS NOT NULL AND ?2 IS NOT NULL AND ?3 IS NOT NULL""",
        "lease_reclaim_of": "UPDATE holdfast_ready SET owner = NULL WHERE token IS NULL AND owner = ?",
    },
    # The next delivery of a lane is its newest, not its oldest.
    "overtaking": {
        "lane_next": """
            INSERT INTO holdfast_ready (delivery, queue, due_at)
            SELECT id, queue, ?2 FROM holdfast_deliveries
            WHERE lane = ?1 AND state = 'pending' AND handed_until IS NULL
              AND pos = (SELECT max(pos) FROM holdfast_deliveries WHERE lane = ?1 AND state = 'pending')
            ON CONFLICT DO NOTHING""",
    },
    # A start deletes what the previous process had claimed, as if it had been delivered.
    "forgetting": {
        "lease_reclaim": """
            DELETE FROM holdfast_ready WHERE token IS NOT NULL AND (lease_until < ?1
              OR owner IN (SELECT id FROM holdfast_owners WHERE ended_at IS NOT NULL OR boot_id <> ?2))
              AND ?3 IS NOT NULL""",
    },
}

POSTGRES_FAULTS: dict[str, dict[str, str]] = {
    # Settling does not check whether the lease is still held.
    "unfenced": {
        "ready_end": """
            WITH gone AS (
              DELETE FROM {schema}.ready r USING unnest($1::bigint[], $2::bigint[]) w(delivery, token)
              WHERE r.delivery = w.delivery)
            SELECT delivery, token FROM unnest($1::bigint[], $2::bigint[]) w(delivery, token)""",
    },
    # An owner whose session was cut counts as dead, so its deliveries start a second time while it still works on them.
    "robbing": {
        "lease_reclaim": """
            WITH over AS (
              SELECT delivery FROM {schema}.ready
              WHERE token IS NOT NULL AND $2::bigint[] IS NOT NULL AND $3::bigint[] IS NOT NULL
                AND (lease_until < coalesce($1, {schema}.now_ms())
                OR owner NOT IN (SELECT {schema}.owners_alive()))
              FOR UPDATE SKIP LOCKED)
            UPDATE {schema}.ready r SET owner = NULL, token = NULL, lease_until = NULL
            FROM over WHERE r.delivery = over.delivery""",
    },
    # Leases of a dead or stopped owner are never reclaimed.
    "unreclaimed": {
        "lease_reclaim": """
            UPDATE {schema}.ready SET token = token
            WHERE $1::bigint IS NOT NULL AND $2::bigint[] IS NULL AND $3::bigint[] IS NULL""",
    },
}


def inject(fault: str) -> None:
    """Make the store of this process faulty, until the process ends."""
    store, texts = ("sqlite", FAULTS) if fault in FAULTS else ("postgres", POSTGRES_FAULTS)
    sql = import_module(f"holdfast.store.{store}.statements").sql
    for name, text in texts[fault].items():
        if name not in sql.names():
            raise ValueError(f"the store has no statement {name} that could be made faulty")
        sql._texts[name] = text
