"""Schedules drawn from seeds keep every promise, the same seed gives the same schedule, and known bugs are detected."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from holdfast.proof.simulation import campaign
from holdfast.proof.simulation.mutants import MUTANTS, recorded_seeds
from holdfast.proof.simulation.runner import Runner

SCHEDULES = 2500
PARTS = 10  # so that test workers can share them
NEAR = 150
PRINTS = """
from holdfast.proof.simulation.runner import Runner
with Runner() as runner:
    print(*[runner.run(seed).fingerprint for seed in (3, 7, 16, 19)])
"""


@pytest.fixture(scope="module")
def runner() -> Iterator[Runner]:
    with Runner() as running:
        yield running


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_every_promise_is_kept_on_every_schedule(part: int, record_property: Callable[[str, object], None]) -> None:
    """About four minutes on one core. The seeds are fixed, so that unchanged code gives unchanged results."""
    counts = campaign(1_000_000 + part * SCHEDULES // PARTS, seeds=SCHEDULES // PARTS)
    record_property("simulated schedules", counts.schedules)
    record_property("faults", sum(counts.faults.values()))
    assert counts.failures == []
    assert counts.schedules == SCHEDULES // PARTS


@pytest.mark.parametrize("seed", recorded_seeds()["fixed"])
def test_a_seed_that_once_found_a_bug_now_passes(runner: Runner, seed: int) -> None:
    assert runner.run(seed).violations == ()


@pytest.mark.parametrize("name", sorted(MUTANTS))
def test_a_known_bug_is_detected(runner: Runner, name: str) -> None:
    """By a recorded seed; if the schedules have changed, by one of the following seeds."""
    killed = runner.kill(name) or runner.first_kill(MUTANTS[name], recorded_seeds()[name][0], NEAR)
    assert killed is not None, f"{name} survived; look for other seeds with --mutants"
    assert runner.run(killed.seed).violations == ()


def test_every_mutant_is_recorded_and_names_its_fault() -> None:
    assert recorded_seeds().keys() - {"fixed"} == set(MUTANTS)
    assert all(mutant.fault for mutant in MUTANTS.values())


@pytest.mark.parametrize("seed", [3, 7, 19])
def test_the_same_seed_gives_the_same_schedule(runner: Runner, seed: int) -> None:
    first, second = runner.run(seed, trace=True), runner.run(seed, trace=True)
    assert first.trace == second.trace
    assert first.fingerprint == second.fingerprint
    assert first.fingerprint != runner.run(seed + 1).fingerprint


def test_memory_addresses_make_no_difference(runner: Runner) -> None:
    """Seed 213 kills a process that several clients wait for: they once woke in the order of their addresses."""
    assert len({runner.run(213).fingerprint for _ in range(5)}) == 1


@pytest.mark.parametrize("seed", [3, 7, 19])
def test_a_file_that_stays_open_makes_no_difference(runner: Runner, seed: int) -> None:
    assert runner.run(seed, fresh=True).fingerprint == runner.run(seed, fresh=False).fingerprint


def test_another_process_and_another_hash_seed_give_the_same_schedules(runner: Runner) -> None:
    here = " ".join(runner.run(seed).fingerprint for seed in (3, 7, 16, 19))
    for hash_seed in ("1", "2"):
        made = subprocess.run(
            [sys.executable, "-c", PRINTS],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        )
        assert made.stdout.strip() == here


def test_a_campaign_counts_the_same_in_one_process_as_in_two() -> None:
    alone, beside = campaign(1, seeds=8), campaign(1, seeds=8, workers=2)
    assert (alone.schedules, alone.steps, alone.faults) == (beside.schedules, beside.steps, beside.faults)
    assert alone.as_json()["failures"] == []


def test_a_campaign_without_an_end_is_refused() -> None:
    with pytest.raises(ValueError, match="needs an end"):
        campaign(1)
