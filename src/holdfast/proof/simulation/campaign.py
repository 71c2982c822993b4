"""Runs many schedules in one or more processes, and counts the results."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import asdict, dataclass, field
from itertools import count
from multiprocessing import get_context
from typing import Any

from holdfast.proof.simulation.mutants import MUTANTS
from holdfast.proof.simulation.runner import Runner, Totals, process_runner

CHUNK = 200
FAILURES_KEPT = 10


@dataclass
class Counts:
    """The result of a campaign. `failures` holds the first few: seed, enabled faults, and violations."""

    first_seed: int
    schedules: int = 0
    steps: int = 0
    simulated_s: float = 0.0
    seconds: float = 0.0
    run_twice: int = 0
    failed: int = 0
    faults: dict[str, int] = field(default_factory=dict)
    failures: list[dict[str, Any]] = field(default_factory=list)

    @property
    def rate(self) -> float:
        """Schedules per second."""
        return self.schedules / self.seconds if self.seconds else 0.0

    def as_json(self) -> dict[str, Any]:
        """
        >>> Counts(7, schedules=10, seconds=2.0).as_json()["rate"]
        5.0
        """
        return {**asdict(self), "rate": round(self.rate, 1)}

    def add(self, totals: Totals) -> None:
        self.schedules += totals.seeds
        self.steps += totals.steps
        self.simulated_s += totals.virtual_s
        self.run_twice += totals.repeated
        self.failed += len(totals.failed)
        for kind, times in sorted(totals.faults.items()):
            self.faults[kind] = self.faults.get(kind, 0) + times
        for outcome in totals.failed[: FAILURES_KEPT - len(self.failures)]:
            broken = [violation._asdict() for violation in outcome.violations[:FAILURES_KEPT]]
            self.failures.append({"seed": outcome.seed, "switches": list(outcome.switches), "violations": broken})


def campaign(
    first_seed: int,
    seeds: int | None = None,
    seconds: float | None = None,
    workers: int = 1,
    progress: Callable[[Counts], None] = lambda counts: None,
) -> Counts:
    """Run `seeds` consecutive seeds, or as many as fit into `seconds`. Calls `progress` after each chunk.

    >>> campaign(1, seeds=2).failed
    0
    """
    if seeds is None and seconds is None:
        raise ValueError("a campaign needs an end: give seeds, seconds, or both")
    counts, began_s = Counts(first_seed), time.perf_counter()
    chunks = _chunks(first_seed, seeds)
    end_s = began_s + seconds if seconds is not None else None
    for totals in _in_process(chunks, end_s) if workers == 1 else _in_workers(chunks, end_s, workers):
        counts.add(totals)
        counts.seconds = time.perf_counter() - began_s
        progress(counts)
    return counts


def kill_mutants() -> dict[str, int | None]:
    """Every known bug, with the recorded seed that detects it; None if none does."""
    with Runner() as runner:
        killed = {name: runner.kill(name) for name in MUTANTS}
    return {name: outcome.seed if outcome is not None else None for name, outcome in killed.items()}


def run_chunk(first: int, seeds: int, seconds: float | None) -> Totals:
    """Run one chunk in a worker process."""
    return process_runner().run_many(first, seeds, seconds)


def _chunks(first: int, seeds: int | None) -> Iterator[tuple[int, int]]:
    for start in count(0, CHUNK):
        if seeds is not None and start >= seeds:
            return
        yield first + start, CHUNK if seeds is None else min(CHUNK, seeds - start)


def _in_process(chunks: Iterator[tuple[int, int]], end_s: float | None) -> Iterator[Totals]:
    with Runner() as runner:
        for first, seeds in chunks:
            left_s = _left(end_s)
            if left_s is not None and left_s <= 0:
                return
            yield runner.run_many(first, seeds, left_s)


def _in_workers(chunks: Iterator[tuple[int, int]], end_s: float | None, workers: int) -> Iterator[Totals]:
    """Run the chunks in spawned processes that share nothing, one chunk at a time each."""
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        running: set[Future[Totals]] = set()
        more = True
        while more or running:
            while more and len(running) < workers:
                left_s, chunk = _left(end_s), next(chunks, None)
                more = chunk is not None and (left_s is None or left_s > 0)
                if chunk is not None and more:
                    running.add(pool.submit(run_chunk, *chunk, left_s))
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                yield future.result()


def _left(end_s: float | None) -> float | None:
    return None if end_s is None else end_s - time.perf_counter()
