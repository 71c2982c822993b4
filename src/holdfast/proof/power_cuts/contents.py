"""The digest of a store's content, and the inconsistent rows that no commit may leave."""

from __future__ import annotations

import hashlib

from holdfast.store.sqlite.connection import Connection, Row

# Each query must find nothing. The schema has no foreign keys; these checks take their place.
NEVER = {
    "a ready row without a pending delivery": """
        SELECT r.delivery FROM holdfast_ready r LEFT JOIN holdfast_deliveries d
          ON d.id = r.delivery AND d.queue = r.queue AND d.state = 'pending' WHERE d.id IS NULL""",
    "a pending delivery outside any lane that cannot be claimed": """
        SELECT id FROM holdfast_deliveries WHERE state = 'pending' AND lane IS NULL AND handed_until IS NULL
          AND id NOT IN (SELECT delivery FROM holdfast_ready)""",
    "a lane that miscounts its open deliveries": """
        SELECT l.id FROM holdfast_lanes l WHERE l.open <>
          (SELECT count(*) FROM holdfast_deliveries d WHERE d.lane = l.id AND d.state = 'pending')""",
    "a pending delivery in a lane that does not exist": """
        SELECT id FROM holdfast_deliveries WHERE state = 'pending' AND lane IS NOT NULL
          AND lane NOT IN (SELECT id FROM holdfast_lanes)""",
    "a lane head that cannot be claimed": """
        SELECT d.id FROM holdfast_lanes l JOIN holdfast_deliveries d ON d.lane = l.id AND d.state = 'pending'
        WHERE l.paused = 0 AND d.handed_until IS NULL AND d.id NOT IN (SELECT delivery FROM holdfast_ready)
          AND d.pos = (SELECT min(pos) FROM holdfast_deliveries m WHERE m.lane = l.id AND m.state = 'pending')""",
    "a ready row that is not the head of its lane": """
        SELECT d.id FROM holdfast_ready r JOIN holdfast_deliveries d ON d.id = r.delivery WHERE d.lane IS NOT NULL
          AND d.pos > (SELECT min(pos) FROM holdfast_deliveries m WHERE m.lane = d.lane AND m.state = 'pending')""",
    "a delivery without its event": """
        SELECT id FROM holdfast_deliveries WHERE event NOT IN (SELECT n FROM holdfast_events)""",
    "a delivery without its queue": """
        SELECT id FROM holdfast_deliveries WHERE queue NOT IN (SELECT id FROM holdfast_queues)""",
    "an attempt without its delivery": """
        SELECT id FROM holdfast_attempts WHERE delivery NOT IN (SELECT id FROM holdfast_deliveries)""",
    "an unrouted or unmatched row without its event": """
        SELECT event FROM (SELECT event FROM holdfast_unrouted UNION ALL SELECT event FROM holdfast_unmatched)
        WHERE event NOT IN (SELECT n FROM holdfast_events)""",
    "an event that is unmatched, yet unrouted or delivered": """
        SELECT event FROM holdfast_unmatched
        WHERE event IN (SELECT event FROM holdfast_unrouted UNION ALL SELECT event FROM holdfast_deliveries)""",
    "a router without a position": "SELECT count(*) FROM holdfast_router HAVING count(*) <> 1",
    "a routed event past the router's position": """
        SELECT event FROM (SELECT event FROM holdfast_again UNION ALL SELECT event FROM holdfast_deliveries)
        WHERE event > (SELECT place FROM holdfast_router)""",
    "a stream whose head is behind its events": """
        SELECT s.id FROM holdfast_streams s
        WHERE s.head < (SELECT max(seq) FROM holdfast_events e WHERE e.stream = s.id)""",
    "a count of events, unmatched events or streams that is wrong": """
        SELECT events, unmatched, streams FROM holdfast_counts WHERE streams <> (SELECT count(*) FROM holdfast_streams)
          OR unmatched <> (SELECT count(*) FROM holdfast_unmatched)
          OR events <> (SELECT count(*) FROM holdfast_events) - (SELECT count(*) FROM holdfast_unrouted)""",
    "a lagging stream without its cursor": """
        SELECT l.stream FROM holdfast_lagging l
        LEFT JOIN holdfast_cursors c ON c.reader = l.reader AND c.stream = l.stream WHERE c.reader IS NULL""",
    "a chain whose head is not its last link": """
        SELECT n.chain FROM holdfast_nodes n LEFT JOIN holdfast_receipts r ON r.chain = n.chain AND r.seq = n.seq
        WHERE n.seq <> (SELECT count(*) FROM holdfast_receipts m WHERE m.chain = n.chain)
           OR (n.seq > 0 AND r.h_self IS NOT n.head)""",
}

_TABLES = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name LIKE 'holdfast_%' ORDER BY name"


def digest(connection: Connection) -> str:
    """One digest over every row of every table. An empty database has one too."""
    found = hashlib.sha256()
    for (table,) in connection.rows(_TABLES):
        rows = sorted(map(repr, connection.rows(f"SELECT * FROM {table}")))
        found.update(repr((table, rows)).encode())
    return found.hexdigest()


def stray_rows(connection: Connection) -> dict[str, list[Row]]:
    """The inconsistent rows found, by kind."""
    found = {name: connection.rows(query) for name, query in NEVER.items()}
    return {name: rows for name, rows in found.items() if rows}
