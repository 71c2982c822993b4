"""How the cost of an event grows: with the backlog, with the number of streams, with the size of the payload."""

from __future__ import annotations

import shutil
import sys
import time
from contextlib import ExitStack
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
BYTES_EACH = 2500  # on the disk, at most: rows, indexes, and the log while they are written


def measure_backlog(book: Book, folder: Path, server: Server | None, sizes: Sizes) -> None:
    """A store for each size, and the same work on each in turn, so that a noisy minute strikes all alike."""
    for store in STORES:
        try:
            _backlogs(book, store, folder, server, sizes)
        except (Failed, OSError) as error:
            book.miss(f"backlog.{store}", str(error))


def _backlogs(book: Book, store: str, folder: Path, server: Server | None, sizes: Sizes) -> None:
    with ExitStack() as stack:
        urls = {}
        for size in sizes.backlogs[store]:
            _need_room(folder, size)
            urls[size] = stack.enter_context(fresh(store, folder, server, f"bench_{size}"))
            began = time.monotonic()
            fill(urls[size], size)
            say(f"  {store}: {size:,} pending, filled in {time.monotonic() - began:.0f} s")
        for _ in range(sizes.times):
            for size, url in urls.items():
                _claims(book, store, url, size, sizes)
                fill(url, size, prepared=True)  # what the work took away is put back
                _part(book, store, url, size, sizes)
                fill(url, size, prepared=True)


def _need_room(folder: Path, size: int) -> None:
    free = shutil.disk_usage(folder).free
    if free < size * BYTES_EACH:
        raise Failed(
            f"{size:,} pending need {size * BYTES_EACH / 1e9:.1f} GB of disk, and {free / 1e9:.1f} GB are free"
        )


def _claims(book: Book, store: str, url: str, size: int, sizes: Sizes) -> None:
    times = _ours(url, work="claims", count=sizes.claims)["claim_ms"]
    book.add(f"claim.{store}.{size}", percentile(times, 0.5), "ms")


def _part(book: Book, store: str, url: str, size: int, sizes: Sizes) -> None:
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
