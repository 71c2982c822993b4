"""`make bench`: the figures, beside what the machine can do and what others do, in one run."""

from __future__ import annotations

import platform
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import apsw

from benchmarks import house, limits, peers
from benchmarks.measure import Figure, percentile, repeat
from holdfast import __version__

TIMES = 3


def main() -> None:
    print(f"holdfast {__version__}, {datetime.now(UTC):%Y-%m-%d}, Python {platform.python_version()}, ", end="")
    print(f"SQLite {apsw.sqlite_lib_version()}, {platform.machine()}, {platform.system()} {platform.release()}")
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as name:
        run(Path(name))


def run(folder: Path) -> None:
    print("Accept, 1 KB events, SQLite FULL sync:")
    raw = show(repeat("bare SQLite, one row per commit", lambda: limits.raw_commits(folder, 1000), TIMES))
    one = show(repeat("holdfast, 1 caller", lambda: house.accept(folder, 1, 1000), TIMES))
    many = show(repeat("holdfast, 64 callers", lambda: house.accept(folder, 64, 200), TIMES))
    huey = show(repeat("huey (fsync=True), 1 caller", lambda: peers.huey_enqueue(folder, 1000), TIMES))
    persist = show(
        repeat("persist-queue ack queue, 1 caller", lambda: peers.persist_queue_enqueue(folder, 1000), TIMES)
    )
    ratio("1 caller / bare commits", one, raw)
    ratio("1 caller / huey", one, huey)
    ratio("1 caller / persist-queue", one, persist)
    ratio("64 callers / bare commits", many, raw)
    print("Deliver to a no-op handler, receipts on:")
    drained = show(repeat("holdfast, drain of 20,000", lambda: house.drain(folder, 20_000), TIMES))
    show(repeat("holdfast, accept to settled, 20,000", lambda: house.whole_path(folder, 20_000), TIMES))
    acked = show(repeat("persist-queue, get and ack", lambda: peers.persist_queue_drain(folder, 2000), TIMES))
    ratio("drain / persist-queue", drained, acked)
    print("Commit to handler start, light load:")
    times = [value for _ in range(TIMES) for value in house.latencies(folder, 200)]
    for label, fraction in (("p50", 0.5), ("p99", 0.99)):
        value = percentile(times, fraction)
        show(Figure(f"holdfast, in process, {label}", value, min(times), max(times), "ms"))


def show(figure: Figure) -> Figure:
    print(figure.line(), flush=True)
    return figure


def ratio(name: str, ours: Figure, other: Figure) -> None:
    print(f"  = {name:<46} {ours.median / other.median:>12.2f} x")


if __name__ == "__main__":
    main()
