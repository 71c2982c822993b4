"""What this machine can do at best: a bare row, a bare commit, one fsync each."""

from __future__ import annotations

import time
from pathlib import Path

import apsw

PAYLOAD = "x" * 1000


def raw_commits(folder: Path, count: int) -> float:
    """Single-row durable commits per second on bare SQLite, WAL and FULL."""
    connection = apsw.Connection(str(folder / f"raw-{time.monotonic_ns()}.db"))
    for pragma in ("journal_mode = WAL", "synchronous = FULL", "wal_autocheckpoint = 0"):
        connection.execute(f"PRAGMA {pragma}")
    connection.execute("CREATE TABLE t (n INTEGER PRIMARY KEY, payload TEXT)")
    began = time.perf_counter()
    for _ in range(count):
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("INSERT INTO t (payload) VALUES (?)", (PAYLOAD,))
        connection.execute("COMMIT")
    rate = count / (time.perf_counter() - began)
    connection.close()
    return rate
