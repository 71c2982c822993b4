"""Runs seeds, one world each, and counts the results."""

from __future__ import annotations

import gc
import logging
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from multiprocessing.util import Finalize
from random import Random

from holdfast.domain.errors import HoldfastError
from holdfast.egress.attempt_log import describe
from holdfast.proof.kills.evidence import Violation
from holdfast.proof.simulation.checks import check_case
from holdfast.proof.simulation.mutants import MUTANTS, NONE, Mutant, recorded_seeds
from holdfast.proof.simulation.schedule import Schedule
from holdfast.proof.simulation.swarm import draw_swarm
from holdfast.proof.simulation.workspace import Workspaces

COLLECT_EVERY = 50
FRESH_EVERY = 16


class ScheduleAborted(HoldfastError):
    """A schedule ended with an unexpected exception."""


@dataclass(frozen=True)
class Outcome:
    """The result of one seed."""

    seed: int
    violations: tuple[Violation, ...]
    fingerprint: str
    faults: Counter[str]
    switches: tuple[str, ...]
    trace: tuple[str, ...] = ()
    steps: int = 0
    elapsed_s: float = 0.0


@dataclass
class Totals:
    """The results of many seeds."""

    seeds: int = 0
    steps: int = 0
    virtual_s: float = 0.0
    seconds: float = 0.0
    repeated: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    failed: list[Outcome] = field(default_factory=list)

    def add(self, outcome: Outcome) -> None:
        self.seeds += 1
        self.steps += outcome.steps
        self.virtual_s += outcome.elapsed_s
        self.faults.update(outcome.faults)
        if outcome.violations:
            self.failed.append(outcome)

    @property
    def rate(self) -> float:
        return self.seeds / self.seconds if self.seconds else 0.0


class Runner:
    """A context manager. Its folder is in memory if possible."""

    def __enter__(self) -> Runner:
        self._workspaces = Workspaces().__enter__()
        self._count = 0
        gc.collect()
        gc.freeze()
        gc.disable()  # collected every 50 schedules instead
        return self

    def __exit__(self, *exception: object) -> None:
        gc.enable()
        gc.unfreeze()
        self._workspaces.__exit__(*exception)

    def run(self, seed: int, mutant: Mutant = NONE, *, trace: bool = False, fresh: bool | None = None) -> Outcome:
        """Run one seed and check it. `fresh`: on a new file, as every sixteenth seed is."""
        chance, workspaces = Random(seed), self._workspaces
        swarm = draw_swarm(chance)
        fresh = swarm.needs_own_file or (seed % FRESH_EVERY == 0 if fresh is None else fresh)
        try:
            with (
                mutant.installed(),
                _captured_errors() as errors_logged,
                workspaces.fresh() if fresh else workspaces.warm() as workspace,
            ):
                schedule = Schedule(chance, swarm, workspace, mutant, trace)
                case = schedule.run()
                violations = check_case(case)
        except Exception as error:
            raise ScheduleAborted(f"the schedule of seed {seed} was aborted: {describe(error)}") from error
        finally:
            self._count += 1
            if self._count % COLLECT_EVERY == 0:
                gc.collect()
        violations += [Violation("error", "log", line) for line in errors_logged]
        world = schedule.world
        return Outcome(
            seed, tuple(violations), world.ledger.fingerprint, world.ledger.faults, tuple(world.swarm.names),
            tuple(world.ledger.trace or ()), world.loop.steps, world.loop.time(),
        )  # fmt: skip

    def run_many(self, first: int, count: int | None, seconds: float | None = None, twice_every: int = 100) -> Totals:
        """Run consecutive seeds: `count` of them, or for `seconds`. Every hundredth runs twice."""
        totals, began_s, seed = Totals(), time.perf_counter(), first
        while (count is None or totals.seeds < count) and (seconds is None or time.perf_counter() - began_s < seconds):
            outcome = self.run(seed)
            totals.add(outcome)
            if twice_every and totals.seeds % twice_every == 1:
                totals.repeated += 1
                if self.run(seed, fresh=seed % FRESH_EVERY != 0).fingerprint != outcome.fingerprint:
                    fault = Violation("determinism", str(seed), "two runs of this seed differ")
                    totals.failed.append(Outcome(seed, (fault,), outcome.fingerprint, Counter(), outcome.switches))
            seed += 1
        totals.seconds = time.perf_counter() - began_s
        return totals

    def kill(self, name: str) -> Outcome | None:
        """Run a mutant on its recorded seeds. The first outcome with violations, if any."""
        for seed in recorded_seeds().get(name, ()):
            if (outcome := self.run(seed, MUTANTS[name])).violations:
                return outcome
        return None

    def first_kill(self, mutant: Mutant, first: int, count: int) -> Outcome | None:
        """The first seed that detects a mutant."""
        for seed in range(first, first + count):
            outcome = self.run(seed, mutant)
            if outcome.violations:
                return outcome
        return None


@cache
def process_runner() -> Runner:
    """The runner of this process, shared by many small tasks of a worker: setting one up costs ten schedules.

    Its folder is removed when the process ends, also when a pool ends it.
    """
    runner = Runner().__enter__()
    Finalize(None, runner.__exit__, (None, None, None), exitpriority=10)
    return runner


class _ErrorLog(logging.Handler):
    """Collects logged errors. Simulated faults and failed deliveries are expected; anything else is a violation."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.name != "holdfast.delivery" and "simulated" not in record.getMessage():
            self.lines.append(record.getMessage())


@contextmanager
def _captured_errors() -> Iterator[list[str]]:
    logger, handler = logging.getLogger("holdfast"), _ErrorLog()
    level, propagate = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.propagate = False
    logger.setLevel(logging.ERROR)
    try:
        yield handler.lines
    finally:
        logger.removeHandler(handler)
        logger.propagate = propagate
        logger.setLevel(level)
