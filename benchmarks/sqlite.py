"""Accept, drain and the whole path on SQLite, compared with bare commits and other SQLite queues for Python.

The logs are reused: see `limits.py`.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from benchmarks import limits, sqlite_queues
from benchmarks.measure import Results
from benchmarks.orders import Failed, ask
from benchmarks.sizes import Sizes


def measure(results: Results, folder: Path, sizes: Sizes) -> None:
    count = sizes.accept
    turns = {
        "sqlite.accept.bare commits": lambda: limits.raw_commits(folder, count),
        "sqlite.accept.bare commits, log that grows": lambda: limits.raw_commits(folder, count, log_grows=True),
        "sqlite.accept.holdfast, 1 caller": lambda: _ours(folder, work="single", count=count, warm=limits.WARM),
        "sqlite.accept.holdfast, 64 callers": lambda: _ours(
            folder, work="callers", callers=64, count=count * 10, warm=limits.WARM * 10
        ),
        "sqlite.accept.huey": lambda: sqlite_queues.huey_enqueue(folder, count),
        "sqlite.accept.persist-queue": lambda: sqlite_queues.persist_queue_enqueue(folder, count),
        "sqlite.drain.holdfast": lambda: _ours(folder, work="drain", count=sizes.sqlite_drain),
        "sqlite.drain.persist-queue": lambda: sqlite_queues.persist_queue_drain(folder, count),
        "sqlite.whole.holdfast": lambda: _ours(folder, work="whole", count=sizes.sqlite_drain),
    }
    for _ in range(sizes.times):
        for name, take in turns.items():
            try:
                results.add(name, take(), "/s")
            except (Failed, ImportError, OSError) as error:
                results.miss(name, str(error))


def _ours(folder: Path, **order: object) -> float:
    place = folder / f"accept-{time.monotonic_ns()}.db"
    measured = ask(sys.executable, "holdfast", url=f"sqlite:///{place}", size=500, **order)
    for path in folder.glob(f"{place.name}*"):
        path.unlink()
    return float(measured["done"]) / float(measured["seconds"])
