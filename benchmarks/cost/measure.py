"""Runs the whole path (accept, route, handle, settle with a receipt) and adds up the CPU time of every process."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from benchmarks.cost.statements import Statements
from benchmarks.latency import fresh
from benchmarks.measure import Results
from benchmarks.orders import Failed, ask
from benchmarks.server import Server
from benchmarks.sizes import Sizes

WARM = 500
ROWS = 16
SHARE_MIN = 0.01


def measure(results: Results, folder: Path, server: Server | None, sizes: Sizes) -> None:
    stores = ("sqlite", *(["postgres"] if server else []))
    for _ in range(sizes.times):
        for store in stores:
            try:
                _take(results, store, folder, server, sizes.cost)
            except (Failed, OSError) as error:
                results.miss(f"cost.{store}", str(error))
    for store in stores:
        if f"cost.{store}" not in results.missing:
            results.facts.setdefault("cost", {})[store] = _profile(store, folder, server, sizes.cost)


def _take(results: Results, store: str, folder: Path, server: Server | None, count: int) -> None:
    with fresh(store, folder, server) as url:
        _whole(url, WARM)  # creates the tables
        before = server.cpu_by_process() if server and store == "postgres" else {}
        log = _log_bytes(server) if server and store == "postgres" else 0
        measured = _whole(url, count)
        after = server.cpu_by_process() if server and store == "postgres" else {}
        written = _log_bytes(server) - log if server and store == "postgres" else measured["written_bytes"]
    each = {"this process": measured["work_cpu_s"], **{name: after[name] - before.get(name, 0.0) for name in after}}
    for name, seconds in each.items():
        results.add(f"cost.{store}.{name}", seconds / count * 1e6, "µs")
    results.add(f"cost.{store}.all", sum(each.values()) / count * 1e6, "µs")
    results.add(f"cost.{store}.written", written / count, "bytes")
    results.add(f"cost.{store}.rate", count / measured["seconds"], "/s")


def _profile(store: str, folder: Path, server: Server | None, count: int) -> dict[str, Any]:
    """A run of its own, because reading the profile costs time too."""
    with fresh(store, folder, server) as url:
        _whole(url, WARM)
        if store == "sqlite":
            return {"profile": _largest(_whole(url, count, profile=True)["profile"])}
        with Statements(url) as statements:
            measured = _whole(url, count, profile=True)
        return {"profile": _largest(measured["profile"]), "statements": statements.shares()[:ROWS]}


def _largest(shares: dict[str, float]) -> list[tuple[str, float]]:
    return [(place, share) for place, share in shares.items() if share >= SHARE_MIN][:ROWS]


def _whole(url: str, count: int, **more: Any) -> dict[str, Any]:
    return ask(sys.executable, "holdfast", url=url, work="whole", count=count, **more)


def _log_bytes(server: Server) -> int:
    import psycopg

    with psycopg.connect(server.url(), autocommit=True) as connection:
        row = connection.execute("SELECT pg_current_wal_insert_lsn() - '0/0'").fetchone()
    assert row is not None
    return int(row[0])
