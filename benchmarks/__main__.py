"""`make bench`: measure Holdfast, the limits of the machine and peers in one run.

python -m benchmarks                       everything, about half an hour on a quiet machine
python -m benchmarks --quick               small sizes: checks that every part works
python -m benchmarks --only pg,latency     some parts; --merge keeps the other parts of the last run
python -m benchmarks --soak 60             load both stores at half the sustained rate for so many minutes; merges
python -m benchmarks --page                write the page again from the results of the last run
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from benchmarks import (
    daemons,
    growth,
    hooks,
    http_in,
    idle,
    latency,
    machine,
    matching,
    messages,
    page,
    postgres,
    publish,
    receipts,
    receiver,
    sqlite,
    tails,
    web,
    webhooks,
)
from benchmarks.cost import measure as cost
from benchmarks.measure import Results, progress
from benchmarks.orders import CACHE, ROOT
from benchmarks.server import SETTINGS, Server, running
from benchmarks.sizes import FULL, QUICK, Sizes
from benchmarks.soak import measure as soak
from benchmarks.world import compare

PAGE = ROOT / "docs" / "proof" / "numbers.md"
QUICK_PAGE = CACHE / "quick" / "numbers.md"
BUDGET_S = 40 * 60
SOAK_MIN = 0.5
Part = Callable[[Results, Path, Server | None, Sizes], None]


def _peers(results: Results, folder: Path, server: Server | None, sizes: Sizes) -> None:
    if server is None:
        raise RuntimeError("no PostgreSQL server is running")
    postgres.measure(results, server, sizes)


# In the order they run, each with the prefixes of the figures it writes.
PARTS: dict[str, tuple[Part, tuple[str, ...]]] = {
    "sqlite": (lambda results, folder, server, sizes: sqlite.measure(results, folder, sizes), ("sqlite.",)),
    "pg": (_peers, ("pg.",)),
    "world": (compare.measure, ("world.",)),
    "daemons": (daemons.measure, ("daemons.",)),
    "cost": (cost.measure, ("cost.",)),
    "publish": (publish.measure, ("publish.",)),
    "latency": (latency.measure, ("latency.",)),
    "restart": (latency.measure_restart, ("restart.",)),
    "streams": (growth.measure_streams, ("streams.",)),
    "payload": (growth.measure_payload, ("payload.",)),
    "backlog": (growth.measure_backlog, ("backlog.", "claim.")),
    "receiver": (receiver.measure, ("receiver.",)),
    "hooks": (hooks.measure, ("hooks.",)),
    "webhooks": (webhooks.measure, ("webhooks.",)),
    "http": (http_in.measure, ("http.",)),
    "idle": (idle.measure, ("idle.",)),
    "receipts": (receipts.measure, ("receipts.",)),
    "tails": (tails.measure, ("tails.",)),
    "web": (web.measure, ("web.",)),
    "matching": (matching.measure, ("matching.",)),
    "messages": (messages.measure, ("messages.",)),
    "soak": (soak.measure, ("soak.",)),
}
APART = ("soak",)  # runs only when asked for: an hour
GROUPS = {"growth": ("streams", "payload", "backlog")}


def main(arguments: Sequence[str] | None = None) -> int:
    given = _parse(arguments)
    target = given.out or (QUICK_PAGE if given.quick else PAGE)
    file = target.with_suffix("") / "results.json"
    if given.page:
        page.write(Results.from_json(json.loads(file.read_text(encoding="utf-8"))), target)
        progress(f"{target} was written from {file}")
        return 0
    CACHE.mkdir(exist_ok=True)
    results = Results()
    if given.merge and file.exists():
        results = _without(Results.from_json(json.loads(file.read_text(encoding="utf-8"))), given.parts)
    sizes = QUICK if given.quick else FULL
    if given.soak is not None:
        sizes = dataclasses.replace(sizes, soak_minutes=given.soak)
    if given.times:
        sizes = dataclasses.replace(sizes, times=given.times)
    ended = _run(results, given.parts, sizes, given.quick, file)
    page.write(results, target)
    progress(f"{target} was written; the figures are in {file}")
    return 0 if ended else 1


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m benchmarks", description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--only", default="", help=f"parts, separated by commas: {', '.join([*PARTS, *GROUPS])}")
    parser.add_argument("--quick", action="store_true", help="small sizes; writes under .bench/quick")
    parser.add_argument("--times", type=int, help="repetitions of everything (3; quick: 1)")
    parser.add_argument("--merge", action="store_true", help="keep the other parts of the last run")
    parser.add_argument(
        "--soak", type=float, nargs="?", const=FULL.soak_minutes, metavar="MINUTES",
        help="run only the soak, 60 minutes if not given, and keep the other parts of the last run",
    )  # fmt: skip
    parser.add_argument("--page", action="store_true", help="measure nothing; write the page from the last results")
    parser.add_argument("--out", type=Path, help="the page; figures and plots go to a folder of its name beside it")
    given = parser.parse_args(arguments)
    names = [name.strip() for name in given.only.split(",") if name.strip()] or [
        name for name in PARTS if name not in APART
    ]
    if given.soak is not None:
        if given.soak < SOAK_MIN:
            parser.error(f"a soak takes at least {SOAK_MIN:g} minutes")
        names, given.merge = ["soak"], True
    given.parts = [part for name in names for part in GROUPS.get(name, (name,))]
    for name in given.parts:
        if name not in PARTS:
            parser.error(f"unknown part {name!r}; choose from {', '.join([*PARTS, *GROUPS])}")
    return given


def _without(results: Results, parts: Sequence[str]) -> Results:
    """Remove the figures of these parts."""
    gone = tuple(prefix for part in parts for prefix in PARTS[part][1])
    results.figures = {name: figure for name, figure in results.figures.items() if not name.startswith(gone)}
    results.missing = {
        name: why for name, why in results.missing.items() if not name.startswith(gone) and name not in parts
    }
    return results


def _runs(results: Results) -> dict[str, str]:
    """Where and when each part that is kept was measured."""
    facts = results.facts
    known: dict[str, str] = facts.get("runs", {})
    return {part: known.get(part) or page.describe_run(facts) for part in facts.get("took_s", {}) if part in PARTS}


def _packages(before: Mapping[str, str], now: Mapping[str, str]) -> dict[str, str]:
    """The versions of this run; those of an earlier one for peers that are not installed now."""
    return {name: before.get(name, version) if "not" in version else version for name, version in now.items()}


def _run(results: Results, parts: Sequence[str], sizes: Sizes, quick: bool, file: Path) -> bool:
    """Run every part; a failure is recorded and the others continue. Returns whether all succeeded."""
    ended, run_began = True, time.monotonic()
    with (
        tempfile.TemporaryDirectory(prefix="holdfast-bench-", dir=machine.disk()) as name,
        contextlib.ExitStack() as stack,
    ):
        folder = Path(name)
        took, runs = results.facts.get("took_s", {}), _runs(results)
        packages = results.facts.get("packages", {})
        results.facts |= machine.facts(folder) | {"quick": quick, "sizes": dataclasses.asdict(sizes), "took_s": took}
        results.facts["runs"] = runs
        results.facts["packages"] = _packages(packages, results.facts["packages"])
        if results.facts["load before"] > 0.5:
            progress(f"the machine is busy (load {results.facts['load before']}): only the ratios are meaningful")
        server = None
        try:
            server = stack.enter_context(running(folder))
            results.facts |= {"PostgreSQL": server.version, "server settings": SETTINGS}
        except (OSError, RuntimeError) as error:
            results.miss("PostgreSQL", str(error))
        for part in parts:
            progress(f"{part}:")
            began = time.monotonic()
            if began - run_began > BUDGET_S * 0.75 and sizes.times > 1:
                sizes = dataclasses.replace(sizes, times=1)
                results.miss(f"repetitions from {part} on", "time was running out, so each figure was measured once")
            try:
                PARTS[part][0](results, folder, server, sizes)
            except Exception as error:
                ended = False
                traceback.print_exc(file=sys.stderr)
                results.miss(part, f"it failed: {type(error).__name__}: {error}")
            took[part], runs[part] = round(time.monotonic() - began, 1), page.describe_run(results.facts)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps(results.to_json(), indent=1) + "\n", encoding="utf-8")
    return ended


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # so that the server is stopped too
    sys.exit(main())
