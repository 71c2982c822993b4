"""`python -m holdfast.proof.power_cuts`: check the store on disk images after simulated power cuts.

Exit code 1: a promise was broken.
"""

from __future__ import annotations

import argparse
import os
import secrets
import sys

from holdfast.proof.power_cuts.campaign import Tally, campaign


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m holdfast.proof.power_cuts", description=__doc__)
    parser.add_argument("--images", type=int, default=2000, help="number of disk images (default 2000)")
    parser.add_argument("--seed", type=int, default=None, help="seed of an earlier run, to repeat its random choices")
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, help="number of worker processes (default: one per core)"
    )
    given = parser.parse_args()
    if given.images < 1 or given.jobs < 1:
        parser.error("--images and --jobs must be 1 or more")
    seed = given.seed if given.seed is not None else secrets.randbelow(1_000_000)
    print(f"Checking {given.images} disk images after power cuts, seed {seed} …", flush=True)
    tally = Tally()
    for tally in campaign(given.images, seed, given.jobs):
        if sys.stdout.isatty():
            print(f"\r{tally.images} images, {tally.faulty} faulty", end="", flush=True)
    print(f"{tally.images} images from {tally.recordings} recordings with {tally.commits} commits")
    print(f"log preallocated {tally.laid} times; {tally.excused} calls wrote nothing")
    print("unsynced writes: " + ", ".join(f"{way} {count}" for way, count in sorted(tally.ways.items())))
    print(f"{tally.seconds:.1f} s, {tally.images / tally.seconds:.0f} images/s")
    for fault in tally.faults:
        print(fault)
    print("No acknowledged commit is missing." if not tally.faulty else f"PROMISES BROKEN in {tally.faulty} images")
    return 1 if tally.faulty else 0


if __name__ == "__main__":
    sys.exit(main())
