"""`python -m holdfast.testing.sim`: run schedules drawn from seeds, and check every promise. 1: one was broken."""

from __future__ import annotations

import argparse
import sys

from holdfast.testing.sim.mutants import MUTANTS, NONE, Mutant
from holdfast.testing.sim.runner import Outcome, Runner, Totals

SHOWN_MAX = 10


def show_totals(totals: Totals) -> None:
    print(
        f"{totals.seeds} schedules, {totals.steps} steps, {totals.virtual_s:.0f} s of simulated time "
        f"in {totals.seconds:.1f} s: {totals.rate:.1f} schedules/s; {totals.repeated} run twice"
    )
    for kind, count in sorted(totals.faults.items()):
        print(f"  {count:8}  {kind}")
    print(f"violations: {sum(len(outcome.violations) for outcome in totals.failed)}")
    for outcome in totals.failed[:SHOWN_MAX]:
        show_violations(outcome)


def show_violations(outcome: Outcome) -> None:
    print(f"seed {outcome.seed} ({', '.join(outcome.switches)}):")
    for violation in outcome.violations[:SHOWN_MAX]:
        print(f"  {violation.promise}: {violation.subject}: {violation.detail}")


def show_one(runner: Runner, seed: int, mutant: Mutant, trace: bool) -> int:
    outcome = runner.run(seed, mutant, trace=trace)
    for line in outcome.trace:
        print(line)
    print(f"seed {seed}: {outcome.steps} steps, {outcome.elapsed_s:.1f} s simulated, {outcome.fingerprint}")
    print(f"switched on: {', '.join(outcome.switches) or 'nothing'}")
    if outcome.violations:
        show_violations(outcome)
    else:
        print("every promise kept")
    return 1 if outcome.violations else 0


def kill_mutants(runner: Runner, count: int) -> int:
    alive = 0
    for mutant in MUTANTS.values():
        outcome = runner.first_kill(mutant, 1, count)
        if outcome is None:
            alive += 1
            print(f"{mutant.name}: survived {count} seeds")
        else:
            print(f"{mutant.name}: seed {outcome.seed}, {outcome.violations[0].promise}")
    return 1 if alive else 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m holdfast.testing.sim", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000, help="how many schedules to run (default 1000)")
    parser.add_argument("--seconds", type=float, help="stop after this time, however many were run")
    parser.add_argument("--first", type=int, default=1, help="the first seed (default 1)")
    parser.add_argument("--seed", type=int, help="run this one schedule")
    parser.add_argument("--trace", action="store_true", help="with --seed: print what happened, line by line")
    parser.add_argument("--mutant", choices=sorted(MUTANTS), help="with --seed: put a known bug in")
    parser.add_argument("--mutants", action="store_true", help="find the first seed that sees each known bug")
    given = parser.parse_args()
    with Runner() as runner:
        if given.mutants:
            return kill_mutants(runner, given.seeds)
        if given.seed is not None:
            return show_one(runner, given.seed, MUTANTS.get(given.mutant or "", NONE), given.trace)
        totals = runner.run_many(given.first, given.seeds, given.seconds)
    show_totals(totals)
    return 1 if totals.failed else 0


if __name__ == "__main__":
    sys.exit(main())
