"""`python -m holdfast.testing.prove`: kill the daemon under load, and account for every event. 1: a promise broke."""

from __future__ import annotations

import argparse
import json
import secrets
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

from holdfast.testing.prove.campaign import Campaign
from holdfast.testing.prove.checker import check
from holdfast.testing.prove.faults import FAULTS
from holdfast.testing.prove.processes import Stuck
from holdfast.testing.prove.report import Report
from holdfast.testing.prove.scene import Plan, Scene

FAULTY_DRAIN_S = 10.0


def prove(kills: int, plan: Plan, as_json: bool) -> int:
    seed = plan.seed
    root = Path(tempfile.mkdtemp(prefix="holdfast-prove-"))
    began_s = time.monotonic()

    def say(text: str) -> None:
        print(text, file=sys.stderr if as_json else sys.stdout, flush=True)

    say(f"Killing the daemon -9 {kills} times under load, seed {seed} …")
    try:
        evidence = Campaign(Scene(root, plan), kills, say).run()
        report = Report(evidence, check(evidence), seed, time.monotonic() - began_s)
    except (Exception, KeyboardInterrupt) as error:
        what = str(error) if isinstance(error, Stuck) else repr(error)
        say(f"The campaign broke off (seed {seed}): {what}\nIts books, store and log are kept in {root}")
        if as_json:
            print(json.dumps({"ok": False, "seed": seed, "error": what, "kept": str(root)}))
        return 1
    if as_json:
        kept = {} if report.ok else {"kept": str(root)}
        print(json.dumps({**report.as_dict(), **kept}, indent=2))
    else:
        say(report.table())
    if not report.ok:
        say(f"PROMISES BROKEN (seed {seed}):\n{report.violations()}\nBooks, store and log are kept in {root}")
        return 1
    say("Every accepted event is accounted for.")
    shutil.rmtree(root)
    return 0


def _positive(text: str) -> int:
    if (value := int(text)) < 1:
        raise argparse.ArgumentTypeError("must be 1 or more")
    return value


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m holdfast.testing.prove", description=__doc__)
    parser.add_argument("--kills", type=_positive, default=200, help="how often to kill it (default 200)")
    parser.add_argument("--seed", type=int, default=None, help="repeat the chances of an earlier campaign")
    parser.add_argument("--json", action="store_true", help="print the result as JSON; progress goes to stderr")
    parser.add_argument("--fault", choices=sorted(FAULTS), help="put a known fault in: the campaign must then fail")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, _interrupt)  # so that what we started is ended when we are
    seed = given.seed if given.seed is not None else secrets.randbelow(1_000_000)
    plan = Plan(seed) if given.fault is None else Plan(seed, drain_s=FAULTY_DRAIN_S, fault=given.fault)
    return prove(given.kills, plan, given.json)


if __name__ == "__main__":
    sys.exit(main())
