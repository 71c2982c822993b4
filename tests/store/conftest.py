"""Real files, both drivers, and a look at the file afterwards for rows that nobody could reach."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.register_assert_rewrite("holdfast.testing.suite")

from holdfast.ports import Chance, Clock  # noqa: E402
from holdfast.store.sqlite.connection import Connection  # noqa: E402
from holdfast.store.sqlite.store import DRIVERS, SqliteStore, inline_executor  # noqa: E402
from holdfast.testing.suite.bench import OpenStore  # noqa: E402
from store_shell import Shell, the_shell  # noqa: E402

# Each names what must never be found. The schema has no foreign keys; this is what stands in for them.
NEVER = {
    "a ready row without a pending delivery": """
        SELECT r.delivery FROM holdfast_ready r LEFT JOIN holdfast_deliveries d
          ON d.id = r.delivery AND d.queue = r.queue AND d.state = 'pending' WHERE d.id IS NULL""",
    "a pending delivery outside any lane that nobody could claim": """
        SELECT id FROM holdfast_deliveries WHERE state = 'pending' AND lane IS NULL AND handed_until IS NULL
          AND id NOT IN (SELECT delivery FROM holdfast_ready)""",
    "a lane that miscounts its open deliveries": """
        SELECT l.id FROM holdfast_lanes l WHERE l.open <>
          (SELECT count(*) FROM holdfast_deliveries d WHERE d.lane = l.id AND d.state = 'pending')""",
    "a pending delivery in a lane that is gone": """
        SELECT id FROM holdfast_deliveries WHERE state = 'pending' AND lane IS NOT NULL
          AND lane NOT IN (SELECT id FROM holdfast_lanes)""",
    "a head that nobody could claim": """
        SELECT d.id FROM holdfast_lanes l JOIN holdfast_deliveries d ON d.lane = l.id AND d.state = 'pending'
        WHERE l.paused = 0 AND d.handed_until IS NULL AND d.id NOT IN (SELECT delivery FROM holdfast_ready)
          AND d.pos = (SELECT min(pos) FROM holdfast_deliveries m WHERE m.lane = l.id AND m.state = 'pending')""",
    "a ready row behind the head of its lane": """
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
    "an event that is both unmatched and on its way": """
        SELECT event FROM holdfast_unmatched
        WHERE event IN (SELECT event FROM holdfast_unrouted UNION ALL SELECT event FROM holdfast_deliveries)""",
    "a stream whose head is behind its events": """
        SELECT s.id FROM holdfast_streams s
        WHERE s.head < (SELECT max(seq) FROM holdfast_events e WHERE e.stream = s.id)""",
    "a chain whose head is not its last link": """
        SELECT n.chain FROM holdfast_nodes n LEFT JOIN holdfast_receipts r ON r.chain = n.chain AND r.seq = n.seq
        WHERE n.seq <> (SELECT count(*) FROM holdfast_receipts m WHERE m.chain = n.chain)
           OR (n.seq > 0 AND r.h_self IS NOT n.head)""",
}


def stray_rows(connection: Connection) -> dict[str, list[tuple[object, ...]]]:
    found = {name: connection.rows(query) for name, query in NEVER.items()}
    return {name: rows for name, rows in found.items() if rows}


@pytest.fixture(params=["apsw", "sqlite3"])
def driver(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def shell() -> Shell:
    return the_shell()


@pytest.fixture
def open_store(tmp_path: Path, driver: str) -> Iterator[OpenStore]:
    """SQLite as the suite wants it: no threads, so that a test decides every interleaving."""
    names: set[str] = set()

    async def open_store(name: str, clock: Clock, chance: Chance, keep: bool) -> SqliteStore:
        names.add(name)
        return SqliteStore.open(
            tmp_path / f"{name}.db", driver=driver, keep=keep, clock=clock, chance=chance, executor=inline_executor
        )

    yield open_store
    for name in sorted(names):
        connection = DRIVERS[driver](tmp_path / f"{name}.db")
        try:
            assert stray_rows(connection) == {}
        finally:
            connection.close()
