"""Schedules drawn from seeds keep every promise, the same seed gives the same schedule, and known bugs are seen."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.testing.sim.mutants import MUTANTS
from holdfast.testing.sim.runner import Runner

SEEDS = Path(__file__).with_name("seeds.txt")
NEAR = 150


def recorded() -> dict[str, list[int]]:
    """What seeds.txt says: seeds by the name of the mutant they kill, or `fixed` for bugs they once found."""
    found: dict[str, list[int]] = {}
    for line in SEEDS.read_text("utf-8").splitlines():
        if line and not line.startswith("#"):
            name, seed = line.split()[:2]
            found.setdefault(name, []).append(int(seed))
    return found


@pytest.fixture(scope="module")
def runner() -> Iterator[Runner]:
    with Runner() as running:
        yield running


@pytest.mark.slow
def test_every_promise_is_kept_on_every_schedule(runner: Runner, capsys: pytest.CaptureFixture[str]) -> None:
    totals = runner.run_many(1_000_000, None, seconds=25)
    with capsys.disabled():
        print(f"\n{totals.seeds} schedules, {totals.rate:.1f}/s, {totals.faults.total()} faults")
    assert [(outcome.seed, outcome.violations[0]) for outcome in totals.failed] == []
    assert totals.seeds >= 20


@pytest.mark.parametrize("seed", recorded()["fixed"])
def test_a_seed_that_once_found_a_bug_finds_it_no_more(runner: Runner, seed: int) -> None:
    assert runner.run(seed).violations == ()


@pytest.mark.parametrize("name", sorted(MUTANTS))
def test_a_known_bug_is_seen(runner: Runner, name: str) -> None:
    """By its recorded seed; when the schedules have changed, by one of those that follow it."""
    [seed] = recorded()[name]
    killed = runner.first_kill(MUTANTS[name], seed, NEAR)
    assert killed is not None, f"{name} survived {NEAR} seeds from {seed}; look for another with --mutants"
    assert runner.run(killed.seed).violations == ()


@pytest.mark.parametrize("seed", [3, 7, 19])
def test_the_same_seed_gives_the_same_schedule(runner: Runner, seed: int) -> None:
    first, second = runner.run(seed, trace=True), runner.run(seed, trace=True)
    assert first.trace == second.trace
    assert first.fingerprint == second.fingerprint
    assert first.fingerprint != runner.run(seed + 1).fingerprint


def test_every_recorded_name_is_known() -> None:
    assert recorded().keys() - {"fixed"} == set(MUTANTS)
