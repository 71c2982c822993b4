"""Runs one part alone: prints its figures and compares them with its goals."""

from __future__ import annotations

import argparse
import dataclasses
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

from benchmarks.goals import Goal
from benchmarks.measure import Results
from benchmarks.server import Server
from benchmarks.sizes import FULL, QUICK, Sizes


def alone(measure: Callable[[Results, Path, Server | None, Sizes], None], goals: Iterable[Goal]) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="small sizes: checks that it works")
    parser.add_argument("--times", type=int, help="repetitions")
    given = parser.parse_args()
    sizes = QUICK if given.quick else FULL
    results = Results()
    with tempfile.TemporaryDirectory(prefix="hf-bench-") as folder:
        measure(results, Path(folder), None, dataclasses.replace(sizes, times=given.times or sizes.times))
    for goal in goals:
        if (value := goal.read(results)) is not None:
            bound = f"{'at least' if goal.at_least else 'at most'} {goal.bound:g} {goal.unit}"
            print(f"{goal.what}: {value:.2f} {goal.unit} ({bound})", flush=True)
