"""How the cost of an event grows: with the backlog, with the number of streams, with the size of the payload."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from benchmarks.fill import fill
from benchmarks.latency import fresh
from benchmarks.measure import Book, percentile, say
from benchmarks.orders import Failed, ask
from benchmarks.server import Server
from benchmarks.sizes import Sizes

STORES = ("sqlite", "postgres")
BATCH = 100


def measure_backlog(book: Book, folder: Path, server: Server | None, sizes: Sizes) -> None:
    """One store that grows: at each size the same work is done, and what it took away is put back."""
    for store in STORES:
        try:
            with fresh(store, folder, server) as url:
                for size in sizes.backlogs[store]:
                    for _ in range(sizes.times):
                        say(f"  {store}: filling up to {size:,} pending …")
                        fill(url, size)
                        _claims(book, store, url, size, sizes)
                        fill(url, size)
                        _part(book, store, url, size, sizes, server)
        except (Failed, OSError) as error:
            book.miss(f"backlog.{store}", str(error))


def _claims(book: Book, store: str, url: str, size: int, sizes: Sizes) -> None:
    times = _ours(url, work="claims", count=sizes.claims)["claim_ms"]
    book.add(f"claim.{store}.{size}", percentile(times, 0.5), "ms")


def _part(book: Book, store: str, url: str, size: int, sizes: Sizes, server: Server | None) -> None:
    """The rate over the first ten thousand, whatever stands behind them."""
    told = _ours(url, work="some", count=min(sizes.backlog_part, size * 9 // 10))
    book.add(f"backlog.{store}.{size}.drain", told["done"] / told["seconds"], "/s")
    book.add(f"backlog.{store}.{size}.CPU", told["work_cpu_s"] / told["done"] * 1e6, "µs")
    book.add(f"backlog.{store}.{size}.memory", told["rss_mb"], "MB")


def measure_streams(book: Book, folder: Path, server: Server | None, sizes: Sizes) -> None:
    """The same number of events for an ordered contract, over few streams and over many."""
    for _ in range(sizes.times):
        for store in STORES:
            for streams in sizes.streams:
                order = {"count": sizes.streams_events, "streams": streams, "size": 500}
                _path(book, f"streams.{store}.{streams}", store, folder, server, order)


def measure_payload(book: Book, folder: Path, server: Server | None, sizes: Sizes) -> None:
    for _ in range(sizes.times):
        for store in STORES:
            for size, count in sizes.payloads.items():
                order = {"count": count, "bytes": size, "size": BATCH}
                _path(book, f"payload.{store}.{size}", store, folder, server, order)


def _path(book: Book, name: str, store: str, folder: Path, server: Server | None, order: dict[str, Any]) -> None:
    if name in book.missing:
        return
    try:
        with fresh(store, folder, server) as url:
            before = server.cpu_s() if server and store == "postgres" else None
            told = _ours(url, work="path", **order)
            after = server.cpu_s() if server and store == "postgres" else None
    except (Failed, OSError) as error:
        book.miss(name, str(error))
        return
    for stretch in ("accept", "route", "drain"):
        book.add(f"{name}.{stretch}", told["done"] / told[f"{stretch}_s"], "/s")
    book.add(f"{name}.CPU", told["work_cpu_s"] / told["done"] * 1e6, "µs")
    if before is not None and after is not None:
        book.add(f"{name}.CPU of the server", (after - before) / told["done"] * 1e6, "µs")
    book.add(f"{name}.memory", told["rss_mb"], "MB")


def _ours(url: str, **order: Any) -> dict[str, Any]:
    return ask(sys.executable, "holdfast", url=url, **order)
