"""What this machine can do at best: a bare row, a bare commit, one fsync each.

The log is reused, as in any database that has been in use for a while: a commit that writes over an earlier part of the
log is about twice as fast as one that makes the log file longer. Everything that is compared with this baseline first
makes as many commits without being timed (`WARM`).
"""

from __future__ import annotations

import time
from pathlib import Path

import apsw

PAYLOAD = "x" * 1000
WARM = 1500
"""Commits before the timed ones. They fill the log of 1,000 pages, after which SQLite starts it from the beginning."""


def raw_commits(folder: Path, count: int, *, log_grows: bool = False) -> float:
    """Single-row durable commits per second on bare SQLite, WAL and FULL, with SQLite's own checkpoints.

    `log_grows`: without checkpoints, so that every commit makes the log file longer.
    """
    connection = apsw.Connection(str(folder / f"raw-{time.monotonic_ns()}.db"))
    for pragma in ("journal_mode = WAL", "synchronous = FULL"):
        connection.execute(f"PRAGMA {pragma}")
    if log_grows:
        connection.execute("PRAGMA wal_autocheckpoint = 0")
    connection.execute("CREATE TABLE t (n INTEGER PRIMARY KEY, payload TEXT)")

    def commit() -> None:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("INSERT INTO t (payload) VALUES (?)", (PAYLOAD,))
        connection.execute("COMMIT")

    for _ in range(WARM):
        commit()
    began = time.perf_counter()
    for _ in range(count):
        commit()
    rate = count / (time.perf_counter() - began)
    connection.close()
    return rate
