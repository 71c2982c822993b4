"""`python -m holdfast.proof.simulation`: run schedules drawn from seeds and check every promise.

Exit code 1: a promise was broken.
"""

from __future__ import annotations

import argparse
import json
import sys

from holdfast.proof.simulation.campaign import Counts, campaign
from holdfast.proof.simulation.mutants import MUTANTS, NONE, Mutant
from holdfast.proof.simulation.runner import Outcome, Runner

SHOWN_MAX = 10


def show_counts(counts: Counts) -> None:
    print(
        f"{counts.schedules} schedules, {counts.steps} steps, {counts.simulated_s:.0f} s of simulated time "
        f"in {counts.seconds:.1f} s: {counts.rate:.1f} schedules/s; {counts.run_twice} run twice"
    )
    for kind, times in sorted(counts.faults.items()):
        print(f"  {times:8}  {kind}")
    print(f"schedules with violations: {counts.failed}")
    for failure in counts.failures:
        print(f"seed {failure['seed']} ({', '.join(failure['switches'])}):")
        for violation in failure["violations"]:
            print("  {promise}: {subject}: {detail}".format(**violation))


def show_violations(outcome: Outcome) -> None:
    print(f"seed {outcome.seed} ({', '.join(outcome.switches)}):")
    for violation in outcome.violations[:SHOWN_MAX]:
        print(f"  {violation.promise}: {violation.subject}: {violation.detail}")


def show_one(runner: Runner, seed: int, mutant: Mutant, trace: bool) -> int:
    outcome = runner.run(seed, mutant, trace=trace)
    for line in outcome.trace:
        print(line)
    print(f"seed {seed}: {outcome.steps} steps, {outcome.elapsed_s:.1f} s simulated, {outcome.fingerprint}")
    print(f"faults enabled: {', '.join(outcome.switches) or 'none'}")
    if outcome.violations:
        show_violations(outcome)
    else:
        print("no violations")
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
    parser = argparse.ArgumentParser(prog="python -m holdfast.proof.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000, help="how many schedules to run (default 1000)")
    parser.add_argument("--seconds", type=float, help="stop after this many seconds")
    parser.add_argument("--first", type=int, default=1, help="the first seed (default 1)")
    parser.add_argument("--seed", type=int, help="run this one schedule")
    parser.add_argument("--trace", action="store_true", help="with --seed: print each step")
    parser.add_argument("--mutant", choices=sorted(MUTANTS), help="with --seed: inject a known bug")
    parser.add_argument("--mutants", action="store_true", help="find the first seed that detects each known bug")
    parser.add_argument("--workers", type=int, default=1, help="number of worker processes (default 1)")
    parser.add_argument("--json", action="store_true", help="print the counts as JSON")
    given = parser.parse_args()
    if given.seeds < 1 or given.workers < 1:
        parser.error("--seeds and --workers must be 1 or more")
    if given.mutants or given.seed is not None:
        with Runner() as runner:
            if given.mutants:
                return kill_mutants(runner, given.seeds)
            return show_one(runner, given.seed, MUTANTS.get(given.mutant or "", NONE), given.trace)
    counts = campaign(given.first, given.seeds, given.seconds, given.workers)
    if given.json:
        print(json.dumps(counts.as_json()))
    else:
        show_counts(counts)
    return 1 if counts.failed else 0


if __name__ == "__main__":
    sys.exit(main())
