"""The daemon itself, with a probe in its store: it kills itself at the n-th passing of a named point.

`HOLDFAST_PROVE_CRASH=before_commit:57` names both; `HOLDFAST_PROVE_NOTE` is the book it writes its last line to.
`HOLDFAST_PROVE_FAULT` puts a known fault into it.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

from holdfast.daemon.run import run_daemon
from holdfast.home import find_home
from holdfast.ports import Probe, no_probe
from holdfast.testing.prove.faults import put_in
from holdfast.testing.prove.records import Book, Crashed

POINTS = ("begun", "before_commit", "after_commit")


def crash_at(point: str, nth: int, note: Path) -> Probe:
    """A probe that ends the process with SIGKILL: no handler, no flush, no goodbye."""
    if point not in POINTS or nth < 1:
        raise ValueError(f"{point}:{nth} is no place to crash at: use one of {', '.join(POINTS)} and a number from 1")
    book, passed = Book(note), 0

    def probe(passing: str) -> None:
        nonlocal passed
        passed += passing == point
        if passed == nth:
            book.write(Crashed(point, nth))
            os.kill(os.getpid(), signal.SIGKILL)

    return probe


def main() -> int:
    probe: Probe = no_probe
    if crash := os.environ.get("HOLDFAST_PROVE_CRASH"):
        point, _, nth = crash.partition(":")
        probe = crash_at(point, int(nth), Path(os.environ["HOLDFAST_PROVE_NOTE"]))
    if fault := os.environ.get("HOLDFAST_PROVE_FAULT"):
        put_in(fault)
    return asyncio.run(run_daemon(find_home(), None, 0, None, lambda text: None, probe))


if __name__ == "__main__":
    sys.exit(main())
