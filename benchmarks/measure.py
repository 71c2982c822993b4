"""How a figure is taken and kept: several repetitions, the median and the spread, under one name."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple


class Figure(NamedTuple):
    """The values of one measurement over its repetitions, and their unit."""

    values: tuple[float, ...]
    unit: str

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def low(self) -> float:
        return min(self.values)

    @property
    def high(self) -> float:
        return max(self.values)


class Results:
    """Everything measured in a run, by name; and in words why something is missing."""

    def __init__(self) -> None:
        self.figures: dict[str, Figure] = {}
        self.missing: dict[str, str] = {}
        self.facts: dict[str, Any] = {}

    def add(self, name: str, value: float, unit: str) -> None:
        before = self.figures.get(name)
        self.figures[name] = Figure((*(before.values if before else ()), value), unit)
        progress(f"  {name:<48} {value:>12,.2f} {unit}")

    def miss(self, name: str, why: str) -> None:
        """One sentence; the first one counts."""
        self.missing.setdefault(name, " ".join(why.split())[:300])
        progress(f"  {name:<48} missing: {self.missing[name]}")

    def median(self, name: str) -> float | None:
        figure = self.figures.get(name)
        return figure.median if figure else None

    def to_json(self) -> dict[str, Any]:
        figures = {name: {"values": list(figure.values), "unit": figure.unit} for name, figure in self.figures.items()}
        return {"facts": self.facts, "figures": figures, "missing": self.missing}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Results:
        results = cls()
        results.facts, results.missing = dict(value["facts"]), dict(value["missing"])
        results.figures = {
            name: Figure(tuple(item["values"]), item["unit"]) for name, item in dict(value["figures"]).items()
        }
        return results


def percentile(values: Iterable[float], fraction: float) -> float:
    """The value that so much of them does not exceed.

    >>> percentile([4.0, 1.0, 3.0, 2.0], 0.5), percentile([1.0], 0.99)
    (2.0, 1.0)
    """
    ordered = sorted(values)
    return ordered[max(0, min(len(ordered) - 1, -int(-len(ordered) * fraction // 1) - 1))]


def progress(text: str) -> None:
    """Progress is for people: it goes to stderr."""
    print(text, file=sys.stderr, flush=True)


def show(figures: Mapping[str, float]) -> None:
    """A table of figures by name, for people."""
    for name, value in figures.items():
        print(f"{name:<60} {value:>14,.2f}", flush=True)
