"""How a figure is taken: several repetitions, the median and the spread."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import NamedTuple


class Figure(NamedTuple):
    """A rate (per second) or a time (milliseconds) over repetitions."""

    name: str
    median: float
    low: float
    high: float
    unit: str = "/s"

    def line(self) -> str:
        return f"  {self.name:<48} {self.median:>12,.1f} {self.unit:<3} [{self.low:,.1f} to {self.high:,.1f}]"


def repeat(name: str, take: Callable[[], float], times: int, unit: str = "/s") -> Figure:
    values = [take() for _ in range(times)]
    return Figure(name, statistics.median(values), min(values), max(values), unit)


def percentile(values: list[float], fraction: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * fraction))]
