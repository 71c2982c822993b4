"""Holdfast and its peers on one PostgreSQL: enqueue one, enqueue many, drain, and the time to the handler."""

from __future__ import annotations

import sys
from typing import Any

from benchmarks.measure import Results, percentile, progress
from benchmarks.orders import Failed, Unsupported, ask, environment
from benchmarks.server import Server
from benchmarks.sizes import PEERS, Sizes
from holdfast.domain.store_url import PGMQ_PREFIX

BATCH = 1000


def measure(results: Results, server: Server, sizes: Sizes) -> None:
    pythons = {"holdfast": sys.executable}
    for peer in PEERS:
        progress(f"  the environment of {peer} …")
        try:
            pythons[peer] = environment(peer)
        except Failed as error:
            results.miss(f"pg.{peer}", str(error))
    works = ("single", "batch", "drain", "latency")
    for _ in range(sizes.times):  # candidates take turns, so noise affects all of them
        for work in works:
            for peer, python in pythons.items():
                if f"pg.{peer}" not in results.missing:
                    _take(results, server, python, peer, work, sizes)
            if work == "drain":
                more = {"work": "drain", "count": sizes.drain}
                _drain(results, server, sys.executable, "holdfast", "holdfast, routed on the way", routed=False, **more)
                _drain(
                    results, server, sys.executable, "holdfast", "holdfast, queue in pgmq", prefix=PGMQ_PREFIX, **more
                )
                if "pgmq" in pythons:
                    _drain(results, server, pythons["pgmq"], "pgmq", "pgmq, archived", end="archive", **more)


def _take(results: Results, server: Server, python: str, peer: str, work: str, sizes: Sizes) -> None:
    name = f"pg.{work}.{peer}"
    if name in results.missing:
        return
    count = sizes.count(peer, work)
    try:
        answer = _ask(server, python, peer, work=work, count=count)
    except (Failed, Unsupported) as error:
        results.miss(name, str(error))
        return
    results.facts.setdefault("settings", {})[peer] = answer["settings"]
    if work == "latency":
        for what in ("commit", "call"):
            times = answer[f"after_{what}_ms"]
            results.add(f"pg.latency from {what}, p50.{peer}", percentile(times, 0.5), "ms")
            results.add(f"pg.latency from {what}, p99.{peer}", percentile(times, 0.99), "ms")
    else:
        results.add(name, answer["done"] / answer["seconds"], "/s")
        if work == "drain":
            results.add(f"pg.drain memory.{peer}", answer["rss_mb"], "MB")


def _drain(
    results: Results, server: Server, python: str, peer: str, label: str, prefix: str = "", **order: Any
) -> None:
    try:
        answer = _ask(server, python, peer, prefix, **order)
        results.add(f"pg.drain.{label}", answer["done"] / answer["seconds"], "/s")
    except Failed as error:
        results.miss(f"pg.drain.{label}", str(error))


def _ask(server: Server, python: str, peer: str, prefix: str = "", **order: Any) -> dict[str, Any]:
    with server.database("bench") as url:
        return ask(python, peer, url=prefix + url, size=BATCH, **order)
