"""How the cost of an event grows with the backlog, the number of streams and the payload size."""

from __future__ import annotations

import shutil
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks.fill import fill
from benchmarks.latency import fresh
from benchmarks.measure import Results, percentile, progress
from benchmarks.orders import Failed, ask
from benchmarks.server import Server
from benchmarks.sizes import Sizes

STORES = ("sqlite", "postgres")
BATCH = 100
BYTES_EACH = 2500  # on disk at most: rows, indexes, and the log during writing


def measure_backlog(results: Results, folder: Path, server: Server | None, sizes: Sizes) -> None:
    """One store per size, measured alternately, so that a noisy minute affects all sizes alike."""
    for store in STORES:
        try:
            _backlogs(results, store, folder, server, sizes)
        except (Failed, OSError) as error:
            results.miss(f"backlog.{store}", str(error))


def _backlogs(results: Results, store: str, folder: Path, server: Server | None, sizes: Sizes) -> None:
    with ExitStack() as stack:
        urls = {}
        for size in sizes.backlogs[store]:
            _need_room(folder, size)
            urls[size] = stack.enter_context(fresh(store, folder, server, f"bench_{size}"))
            began = time.monotonic()
            fill(urls[size], size)
            progress(f"  {store}: {size:,} pending, filled in {time.monotonic() - began:.0f} s")
        for _ in range(sizes.times):
            for size, url in urls.items():
                _claims(results, store, url, size, sizes)
                fill(url, size, prepared=True)  # refill what was delivered
                _part(results, store, url, size, sizes)
                fill(url, size, prepared=True)


def _need_room(folder: Path, size: int) -> None:
    free = shutil.disk_usage(folder).free
    if free < size * BYTES_EACH:
        raise Failed(f"{size:,} pending need {size * BYTES_EACH / 1e9:.1f} GB of disk; {free / 1e9:.1f} GB are free")


def _claims(results: Results, store: str, url: str, size: int, sizes: Sizes) -> None:
    times = _ours(url, work="claims", count=sizes.claims)["claim_ms"]
    results.add(f"claim.{store}.{size}", percentile(times, 0.5), "ms")


def _part(results: Results, store: str, url: str, size: int, sizes: Sizes) -> None:
    """The rate over the first ten thousand deliveries, at any backlog size."""
    measured = _ours(url, work="some", count=min(sizes.backlog_part, size * 9 // 10))
    results.add(f"backlog.{store}.{size}.drain", measured["done"] / measured["seconds"], "/s")
    results.add(f"backlog.{store}.{size}.CPU", measured["work_cpu_s"] / measured["done"] * 1e6, "µs")
    results.add(f"backlog.{store}.{size}.memory", measured["rss_mb"], "MB")


def measure_streams(results: Results, folder: Path, server: Server | None, sizes: Sizes) -> None:
    """The same number of events for an ordered contract, over few and over many streams."""
    for _ in range(sizes.times):
        for store in STORES:
            for streams in sizes.streams:
                order = {"count": sizes.streams_events, "streams": streams, "size": 500}
                _path(results, f"streams.{store}.{streams}", store, folder, server, order)


def measure_payload(results: Results, folder: Path, server: Server | None, sizes: Sizes) -> None:
    for _ in range(sizes.times):
        for store in STORES:
            for size, count in sizes.payloads.items():
                order = {"count": count, "bytes": size, "size": BATCH}
                _path(results, f"payload.{store}.{size}", store, folder, server, order)


def _path(results: Results, name: str, store: str, folder: Path, server: Server | None, order: dict[str, Any]) -> None:
    if name in results.missing:
        return
    try:
        with fresh(store, folder, server) as url:
            before = server.cpu_s() if server and store == "postgres" else None
            measured = _ours(url, work="path", **order)
            after = server.cpu_s() if server and store == "postgres" else None
    except (Failed, OSError) as error:
        results.miss(name, str(error))
        return
    for stretch in ("accept", "route", "drain"):
        results.add(f"{name}.{stretch}", measured["done"] / measured[f"{stretch}_s"], "/s")
    results.add(f"{name}.CPU", measured["work_cpu_s"] / measured["done"] * 1e6, "µs")
    if before is not None and after is not None:
        results.add(f"{name}.CPU of the server", (after - before) / measured["done"] * 1e6, "µs")
    results.add(f"{name}.memory", measured["rss_mb"], "MB")


def _ours(url: str, **order: Any) -> dict[str, Any]:
    return ask(sys.executable, "holdfast", url=url, **order)
