"""The parts of the proof that only compute (schedules, known bugs, power cuts), on all cores."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context
from typing import TypeVar

from holdfast.progress import Progress as ProgressBar
from holdfast.proof.power_cuts.campaign import IMAGES_PER_SEED, Tally, cut_power
from holdfast.proof.simulation.mutants import MUTANTS
from holdfast.proof.simulation.runner import process_runner

CHUNK = 50
SHOWN_MAX = 20
T = TypeVar("T")
R = TypeVar("R")
Progress = Callable[[str], None]


class ProofOutput:
    """Prints what the proof does on standard error: a line for each part, a bar in a terminal. `quiet`: nothing."""

    def __init__(self, quiet: bool = False) -> None:
        self.quiet = quiet

    def __call__(self, text: str) -> None:
        if not self.quiet:
            print(text, file=sys.stderr, flush=True)

    def bar(self, what: str) -> ProgressBar:
        return ProgressBar(what, quiet=self.quiet, log=None if sys.stderr.isatty() else self)


def _bar(what: str, progress: Progress) -> ProgressBar:
    return progress.bar(what) if isinstance(progress, ProofOutput) else ProgressBar(what, log=progress)


@dataclass
class Schedules:
    """The result of the simulation: the number of schedules, the faults injected, and violations by seed."""

    count: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    broken: list[tuple[int, str, str]] = field(default_factory=list)

    def add(self, other: Schedules) -> None:
        self.count += other.count
        self.faults += other.faults
        self.broken = (self.broken + other.broken)[:SHOWN_MAX]


def run_schedules(first: int, count: int | None, seconds: float | None, progress: Progress) -> Schedules:
    """Run consecutive seeds from `first`: `count` of them, or for `seconds`."""
    total, deadline_s = Schedules(), time.monotonic() + (seconds or 1e9)

    def chunks() -> Iterator[tuple[int, int, float]]:
        begun = 0
        while (count is None or begun < count) and time.monotonic() < deadline_s:
            size = CHUNK if count is None else min(CHUNK, count - begun)
            yield first + begun, size, deadline_s
            begun += size

    with _bar("  schedules", progress) as bar:
        for done in _spread(_run_chunk, chunks()):
            total.add(done)
            bar(total.count, count)
    return total


def kill_mutants(seeds: int, progress: Progress) -> dict[str, int | None]:
    """For each known bug, the first of `seeds` seeds that detects it; None if none did."""
    if seeds == 0:
        return {}
    progress(f"Injecting {len(MUTANTS)} known bugs, at most {seeds} schedules for each …")
    found = {}
    with _bar("  known bugs", progress) as bar:
        for name, first in _spread(partial(_kill_mutant, seeds=seeds), iter(MUTANTS)):
            found[name] = first
            bar(len(found), len(MUTANTS))
    return found


def cut_power_often(wanted: int, seed: int, progress: Progress) -> Tally:
    """Check `wanted` disk images after power cuts, from as many recordings as needed."""
    total = Tally()
    shares = [min(IMAGES_PER_SEED, wanted - start) for start in range(0, wanted, IMAGES_PER_SEED)]
    with _bar("  images", progress) as bar:
        for tally in _spread(_cut_share, iter(zip(range(seed, seed + len(shares)), shares, strict=True))):
            total.add(tally)
            bar(total.images, wanted)
    return total


def _run_chunk(share: tuple[int, int, float]) -> Schedules:
    """The deadline is on the monotonic clock, which all processes share."""
    first, count, deadline_s = share
    totals = process_runner().run_many(first, count, deadline_s - time.monotonic())
    broken = [
        (outcome.seed, violation.promise, violation.detail)
        for outcome in totals.failed
        for violation in outcome.violations
    ]
    return Schedules(totals.seeds, totals.faults, broken[:SHOWN_MAX])


def _kill_mutant(name: str, seeds: int) -> tuple[str, int | None]:
    outcome = process_runner().first_kill(MUTANTS[name], 1, seeds)
    return name, None if outcome is None else outcome.seed


def _cut_share(share: tuple[int, int]) -> Tally:
    return cut_power(*share)


def _spread(work: Callable[[T], R], items: Iterator[T]) -> Iterator[R]:
    """Run `work` in one process per core. Results come in order; stopping this process stops the workers."""
    jobs = os.cpu_count() or 1
    with get_context("spawn").Pool(jobs, _prepare) as pool:
        running = [pool.apply_async(work, (item,)) for item in _take(items, jobs + 1)]
        while running:
            yield running.pop(0).get()
            running += [pool.apply_async(work, (item,)) for item in _take(items, 1)]
        pool.close()
        pool.join()


def _take(items: Iterator[T], count: int) -> Sequence[T]:
    return [item for _, item in zip(range(count), items, strict=False)]


def _prepare() -> None:
    """Only the parent handles Ctrl-C; on SIGTERM a worker exits normally, so that it cleans up."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))


def bounded(lines: Iterable[str]) -> list[str]:
    """The first lines, and how many more there are."""
    found = list(lines)
    more = [f"and {len(found) - SHOWN_MAX} more"] if len(found) > SHOWN_MAX else []
    return found[:SHOWN_MAX] + more
