"""The soak on the page: a table with a judgment for each series, and plots over time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks import svg
from benchmarks.measure import Results
from benchmarks.soak.measure import FLOORS, GROWS, GROWTH_MAX, LIMITS, UNITS, Flatness
from benchmarks.tables import amount, plot, table

STORES = {"sqlite": "SQLite", "postgres": "PostgreSQL"}
SHORT_MINUTES = 10
SHORT = " **This run is too short to judge tables: PostgreSQL looks for tables to vacuum only once a minute.**"
PLOTTED = {"memory": "Memory of the daemon", "WAL": "Write-ahead log"}


def write(results: Results, plots: Path) -> str:
    facts = results.facts.get("soak")
    rows = [row for store in STORES for row in _rows(results, store)]
    if not rows or not facts:
        return ""
    return (
        f"### Soak: {facts['minutes']:g} minutes\n\n{_intro(results, facts)}\n\n"
        + table(("store", "what", "after warm-up", "at the end", "highest", "change", "flat"), rows)
        + "\n\n"
        + "\n\n".join(_plot(facts, plots, key, title) for key, title in PLOTTED.items())
    )


def _intro(results: Results, facts: dict[str, Any]) -> str:
    rates = "; ".join(
        f"{shown}: {amount(rate)} events/s, half of {amount(sustained)}, {amount(events)} in all"
        for store, shown in STORES.items()
        if (rate := results.median(f"soak.{store}.rate")) is not None
        and (sustained := results.median(f"soak.{store}.sustained")) is not None
        and (events := results.median(f"soak.{store}.events")) is not None
    )
    receipts = ", ".join(
        f"{amount(grown)} bytes per event on {shown}"
        for store, shown in STORES.items()
        if (grown := results.median(f"soak.{store}.receipts per event")) is not None
    )
    return (
        "Both stores at the same time, each with a daemon and a process that publishes in transactions at half the "
        f"rate that it sustains under these conditions ({rates}). 1 KB payloads, one event in ten in one of 1,000 "
        f"streams, receipts on. Retention deletes events after {facts['retention_s']:.0f} s, so that deleting is part "
        "of the load. *After warm-up* and *at the end* are medians of the first and last quarter after the warm-up. "
        f"Flat: at most {GROWTH_MAX:.0f} % more at the end, or a change too small to be growth. Receipts are never "
        f"deleted and grow by design: {receipts}." + (SHORT if facts["minutes"] < SHORT_MINUTES else "")
    )


def _rows(results: Results, store: str) -> list[tuple[str, ...]]:
    rows = []
    for key, unit in UNITS.items():
        values = [results.median(f"soak.{store}.{key}.{part}") for part in ("first", "last", "highest")]
        first, last, highest = values
        if first is None or last is None or highest is None:
            continue
        found = Flatness(first, last, highest)
        flat = _judgment(store, key, found)
        shown = [f"{amount(value)} {unit}".strip() for value in (first, last, highest)]
        rows.append((STORES[store], key, *shown, f"{found.growth:+.0f} %", flat))
    return rows


def _judgment(store: str, key: str, found: Flatness) -> str:
    if key in GROWS:
        return "grows with the receipts"
    if found.is_flat(FLOORS[key]):
        return "yes"
    return "below the limit of its settings" if found.is_flat(0.0, LIMITS.get((store, key), 0.0)) else "**no**"


def _plot(facts: dict[str, Any], plots: Path, key: str, title: str) -> str:
    minutes = float(facts["minutes"])
    drawn = []
    for store, shown in STORES.items():
        values = facts["series"].get(store, {}).get(key)
        if values:
            points = [(minutes * number / len(values), value) for number, value in enumerate(values)]
            drawn.append(svg.Line(shown, points))
    name = f"soak-{key.lower()}.svg"
    plot(plots / name, svg.lines(f"{title} over time", "minutes", "MB", drawn, over_time=True))
    return f"![{title} over time]({plots.name}/{name})"
