"""`make bench`: the figures, beside what the machine can do and what others do, in one run.

python -m benchmarks                       everything, about half an hour on a quiet machine
python -m benchmarks --quick               small sizes: does every part work?
python -m benchmarks --only pg,latency     some parts; --merge keeps the others of the last run
python -m benchmarks --page                the page again, from the figures of the last run
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
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks import (
    growth,
    hooks,
    http_in,
    idle,
    latency,
    machine,
    matching,
    page,
    postgres,
    publish,
    receiver,
    sqlite,
    webhooks,
)
from benchmarks.measure import Book, say
from benchmarks.orders import CACHE, ROOT
from benchmarks.server import SETTINGS, Server, running
from benchmarks.sizes import FULL, QUICK, Sizes

PAGE = ROOT / "docs" / "proof" / "numbers.md"
QUICK_PAGE = CACHE / "quick" / "numbers.md"
BUDGET_S = 40 * 60
Part = Callable[[Book, Path, Server | None, Sizes], None]


def _peers(book: Book, folder: Path, server: Server | None, sizes: Sizes) -> None:
    if server is None:
        raise RuntimeError("there is no PostgreSQL server")
    postgres.measure(book, server, sizes)


# In the order they run, each with the beginnings of the names it writes.
PARTS: dict[str, tuple[Part, tuple[str, ...]]] = {
    "sqlite": (lambda book, folder, server, sizes: sqlite.measure(book, folder, sizes), ("sqlite.",)),
    "pg": (_peers, ("pg.",)),
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
    "matching": (matching.measure, ("matching.",)),
}
GROUPS = {"growth": ("streams", "payload", "backlog")}


def main(arguments: Sequence[str] | None = None) -> int:
    given = _parse(arguments)
    target = given.out or (QUICK_PAGE if given.quick else PAGE)
    results = target.with_suffix("") / "results.json"
    if given.page:
        page.write(Book.from_json(json.loads(results.read_text(encoding="utf-8"))), target)
        say(f"{target} was written from {results}")
        return 0
    CACHE.mkdir(exist_ok=True)
    book = Book()
    if given.merge and results.exists():
        book = _without(Book.from_json(json.loads(results.read_text(encoding="utf-8"))), given.parts)
    sizes = QUICK if given.quick else FULL
    if given.times:
        sizes = dataclasses.replace(sizes, times=given.times)
    ended = _run(book, given.parts, sizes, given.quick, results)
    page.write(book, target)
    say(f"{target} was written; the figures are in {results}")
    return 0 if ended else 1


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m benchmarks", description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--only", default="", help=f"parts, with commas: {', '.join([*PARTS, *GROUPS])}")
    parser.add_argument("--quick", action="store_true", help="small sizes; writes under .bench/quick")
    parser.add_argument("--times", type=int, help="repetitions of everything (3; quick: 1)")
    parser.add_argument("--merge", action="store_true", help="keep the other parts of the last run")
    parser.add_argument("--page", action="store_true", help="measure nothing, write the page anew")
    parser.add_argument("--out", type=Path, help="the page; figures and plots go to a folder of its name beside it")
    given = parser.parse_args(arguments)
    names = [name.strip() for name in given.only.split(",") if name.strip()] or list(PARTS)
    given.parts = [part for name in names for part in GROUPS.get(name, (name,))]
    for name in given.parts:
        if name not in PARTS:
            parser.error(f"there is no part {name!r}; use some of {', '.join([*PARTS, *GROUPS])}")
    return given


def _without(book: Book, parts: Sequence[str]) -> Book:
    """Forget what these parts wrote."""
    gone = tuple(prefix for part in parts for prefix in PARTS[part][1])
    book.figures = {name: figure for name, figure in book.figures.items() if not name.startswith(gone)}
    book.missing = {name: why for name, why in book.missing.items() if not name.startswith(gone) and name not in parts}
    return book


def _run(book: Book, parts: Sequence[str], sizes: Sizes, quick: bool, results: Path) -> bool:
    """Every part in turn; one that fails is noted and the others go on. Whether all ended."""
    ended, run_began = True, time.monotonic()
    with (
        tempfile.TemporaryDirectory(prefix="holdfast-bench-", dir=machine.disk()) as name,
        contextlib.ExitStack() as stack,
    ):
        folder = Path(name)
        took = book.facts.get("took_s", {})
        book.facts |= machine.facts(folder) | {"quick": quick, "sizes": dataclasses.asdict(sizes), "took_s": took}
        if book.facts["load before"] > 0.5:
            say(f"the machine is not quiet (load {book.facts['load before']}): read nothing but ratios")
        server = None
        try:
            server = stack.enter_context(running(folder))
            book.facts |= {"PostgreSQL": server.version, "server settings": SETTINGS}
        except (OSError, RuntimeError) as error:
            book.miss("PostgreSQL", str(error))
        for part in parts:
            say(f"{part}:")
            began = time.monotonic()
            if began - run_began > BUDGET_S * 0.75 and sizes.times > 1:
                sizes = dataclasses.replace(sizes, times=1)
                book.miss(f"repetitions from {part} on", "time was running out, so everything was taken once")
            try:
                PARTS[part][0](book, folder, server, sizes)
            except Exception as error:
                ended = False
                traceback.print_exc(file=sys.stderr)
                book.miss(part, f"it failed: {type(error).__name__}: {error}")
            took[part] = round(time.monotonic() - began, 1)
            results.parent.mkdir(parents=True, exist_ok=True)
            results.write_text(json.dumps(book.to_json(), indent=1) + "\n", encoding="utf-8")
    return ended


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # so that the server is ended too
    sys.exit(main())
