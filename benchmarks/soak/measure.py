"""The long run: find the sustained rate, load both stores with half of it, sample, and judge whether all stays flat."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import NamedTuple

from benchmarks.latency import fresh
from benchmarks.measure import Results, progress
from benchmarks.orders import Failed
from benchmarks.server import Server
from benchmarks.sizes import Sizes
from benchmarks.soak.stores import DRAIN_S, RECEIPTS, SoakedPostgres, SoakedSqlite, SoakedStore

RETENTION_MAX_S = 60.0
SAMPLES_KEPT = 120
GROWTH_MAX = 10.0
UNITS = {"memory": "MB", "server memory": "MB", "WAL": "MB", "file": "MB",
         "tables without receipts": "MB", "descriptors": "", "backlog": "", "dead tuples": ""}  # fmt: skip
FLOORS = {"memory": 3.0, "server memory": 5.0, "WAL": 5.0, "tables without receipts": 5.0, "descriptors": 3.0,
          "backlog": 2000.0, "dead tuples": 20_000.0}  # fmt: skip
"""Changes below these values are not growth: they are what one batch, one buffer or one vacuum makes."""
LIMITS = {("postgres", "WAL"): 4400.0}
"""The server keeps this much log by its settings (`max_wal_size`), whatever the load."""
GROWS = ("file",)
"""Grows by design: receipts are never deleted."""


class Flatness(NamedTuple):
    """A series after the warm-up: its first and last quarter (medians), and its highest value."""

    first: float
    last: float
    highest: float

    @property
    def growth(self) -> float:
        """In percent of the first quarter."""
        return 100 * (self.last / self.first - 1) if self.first else 100.0 * (self.last > 0)

    def is_flat(self, floor: float, limit: float = 0.0) -> bool:
        """Whether it did not grow, or by less than `floor`, or stays below the `limit` that the store sets."""
        return self.growth <= GROWTH_MAX or self.last - self.first <= floor or self.highest <= limit


def judge(values: Sequence[float]) -> Flatness:
    """
    >>> judge([10, 10, 10, 10, 11, 10, 10, 12])
    Flatness(first=10.0, last=11.0, highest=12)
    >>> judge([10, 20, 30, 40]).is_flat(floor=3)
    False
    """
    if not values:
        raise Failed("the run was too short to be judged")
    quarter = max(1, len(values) // 4)
    return Flatness(float(median(values[:quarter])), float(median(values[-quarter:])), max(values))


def measure(results: Results, folder: Path, server: Server | None, sizes: Sizes) -> None:
    seconds = sizes.soak_minutes * 60
    retention_s = min(RETENTION_MAX_S, seconds / 8)
    with ExitStack() as stack:
        stores: list[SoakedStore] = []
        for kind in ("sqlite", *(["postgres"] if server else [])):
            url = stack.enter_context(fresh(kind, folder, server, "soak"))
            made = SoakedPostgres(folder, url, retention_s, server) if server and kind == "postgres" else None
            stores.append(stack.enter_context(made or SoakedSqlite(folder, url, retention_s)))
        rates = _calibrate(results, stores, min(10.0, seconds / 12))
        series = _run(results, stores, rates, seconds, retention_s)
    results.facts["soak"] = {
        "minutes": sizes.soak_minutes,
        "retention_s": retention_s,
        "series": {name: {key: thin(values) for key, values in found.items()} for name, found in series.items()},
    }


def _calibrate(results: Results, stores: Sequence[SoakedStore], seconds: float) -> dict[str, float]:
    """Half the rate that each store sustains while the other one is under load too."""
    began = time.monotonic()
    rates: dict[str, float] = {}
    for store in stores:
        store.load(0, seconds)
    while len(rates) < len(stores):
        if (passed := time.monotonic() - began) > seconds + DRAIN_S:
            raise Failed("the events published at full speed were not handled in time")
        for store in stores:
            if store.name not in rates and store.is_loaded() and store.backlog() == 0:
                sustained = store.loaded()["published"] / passed
                results.add(f"soak.{store.name}.sustained", sustained, "/s")
                rates[store.name] = sustained / 2
        time.sleep(0.05)
    return rates


def _run(
    results: Results, stores: Sequence[SoakedStore], rates: dict[str, float], seconds: float, retention_s: float
) -> dict[str, dict[str, list[float]]]:
    every_s = min(5.0, max(1.0, seconds / 100))
    warm_s = max(seconds / 4, min(seconds / 2, 2 * retention_s))
    began = time.monotonic()
    tables: dict[str, dict[str, float]] = {}
    series: dict[str, dict[str, list[float]]] = {store.name: {} for store in stores}
    for store in stores:
        store.load(rates[store.name], seconds)
    while (passed := time.monotonic() - began) < seconds:
        for store in stores:
            if passed >= warm_s and store.name not in tables:
                tables[store.name] = store.tables()
            for key, value in store.sample().items():
                series[store.name].setdefault(key, []).append(value)
        if int(passed / every_s) % 20 == 0:
            progress(f"  {passed / 60:.1f} of {seconds / 60:.1f} min: {_newest(series)}")
        time.sleep(max(0.0, every_s - (time.monotonic() - began - passed)))
    for store in stores:
        measured = store.loaded()
        after = store.tables()
        store.drain()
        results.add(f"soak.{store.name}.rate", measured["published"] / measured["seconds"], "/s")
        results.add(f"soak.{store.name}.events", measured["published"], "events")
        _add_series(results, store.name, series[store.name], warm_s / seconds)
        _add_tables(results, store.name, tables[store.name], after, measured["published"] * (1 - warm_s / seconds))
    return series


def _add_series(results: Results, store: str, series: dict[str, list[float]], warm: float) -> None:
    for key, values in series.items():
        _add(results, store, key, judge(values[int(len(values) * warm) :]))


def _add_tables(results: Results, store: str, before: dict[str, float], after: dict[str, float], events: float) -> None:
    """What is left of the tables once old events are removed; and the receipts, which only grow."""
    if f"soak.{store}.tables without receipts.first" not in results.figures:  # not sampled all the time
        kept = [sum(size for name, size in tables.items() if name not in RECEIPTS) for tables in (before, after)]
        _add(results, store, "tables without receipts", Flatness(kept[0], kept[1], max(kept)))
    grown = sum(after.get(name, 0.0) - before.get(name, 0.0) for name in RECEIPTS)
    results.add(f"soak.{store}.receipts per event", grown * 1e6 / events, "bytes")


def _add(results: Results, store: str, key: str, found: Flatness) -> None:
    unit = UNITS[key]
    results.add(f"soak.{store}.{key}.first", found.first, unit)
    results.add(f"soak.{store}.{key}.last", found.last, unit)
    results.add(f"soak.{store}.{key}.highest", found.highest, unit)
    results.add(f"soak.{store}.{key}.growth", max(0.0, found.growth), "%")


def thin(values: Sequence[float]) -> list[float]:
    """At most `SAMPLES_KEPT` values, evenly spread, for the plots.

    >>> len(thin(range(1000))), thin([1.234, 2.0])
    (120, [1.23, 2.0])
    """
    step = len(values) / min(len(values), SAMPLES_KEPT) if values else 1
    return [round(float(values[int(number * step)]), 2) for number in range(min(len(values), SAMPLES_KEPT))]


def _newest(series: dict[str, dict[str, list[float]]]) -> str:
    return "; ".join(
        f"{name} " + ", ".join(f"{key} {values[-1]:,.0f}" for key, values in found.items())
        for name, found in series.items()
    )
