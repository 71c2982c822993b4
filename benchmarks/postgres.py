"""Holdfast and its peers on one PostgreSQL: enqueue one, enqueue many, drain, and the time to the handler."""

from __future__ import annotations

import sys
from typing import Any

from benchmarks.measure import Book, percentile, say
from benchmarks.orders import Failed, Unsupported, ask, environment
from benchmarks.server import Server
from benchmarks.sizes import PEERS, Sizes

BATCH = 1000


def measure(book: Book, server: Server, sizes: Sizes) -> None:
    pythons = {"holdfast": sys.executable}
    for peer in PEERS:
        say(f"  the environment of {peer} …")
        try:
            pythons[peer] = environment(peer)
        except Failed as error:
            book.miss(f"pg.{peer}", str(error))
    works = ("single", "batch", "drain", "latency")
    for _ in range(sizes.times):  # everybody in turn, so that a noisy minute strikes all alike
        for work in works:
            for peer, python in pythons.items():
                if f"pg.{peer}" not in book.missing:
                    _take(book, server, python, peer, work, sizes)
            if work == "drain":
                more = {"work": "drain", "count": sizes.drain}
                _drain(book, server, sys.executable, "holdfast", "holdfast, routed on the way", routed=False, **more)
                if "pgmq" in pythons:
                    _drain(book, server, pythons["pgmq"], "pgmq", "pgmq, archived", end="archive", **more)


def _take(book: Book, server: Server, python: str, peer: str, work: str, sizes: Sizes) -> None:
    name = f"pg.{work}.{peer}"
    if name in book.missing:
        return
    count = sizes.count(peer, work)
    try:
        told = _ask(server, python, peer, work=work, count=count)
    except (Failed, Unsupported) as error:
        book.miss(name, str(error))
        return
    book.facts.setdefault("settings", {})[peer] = told["settings"]
    if work == "latency":
        for what in ("commit", "call"):
            times = told[f"after_{what}_ms"]
            book.add(f"pg.latency from {what}, p50.{peer}", percentile(times, 0.5), "ms")
            book.add(f"pg.latency from {what}, p99.{peer}", percentile(times, 0.99), "ms")
    else:
        book.add(name, told["done"] / told["seconds"], "/s")
        if work == "drain":
            book.add(f"pg.drain memory.{peer}", told["rss_mb"], "MB")


def _drain(book: Book, server: Server, python: str, peer: str, label: str, **order: Any) -> None:
    try:
        told = _ask(server, python, peer, **order)
        book.add(f"pg.drain.{label}", told["done"] / told["seconds"], "/s")
    except Failed as error:
        book.miss(f"pg.drain.{label}", str(error))


def _ask(server: Server, python: str, peer: str, **order: Any) -> dict[str, Any]:
    with server.database("bench") as url:
        return ask(python, peer, url=url, size=BATCH, **order)
