"""Checks of the spool, and a trial of the hook receiver."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Sequence
from pathlib import Path

from holdfast.agents.receiver.fallback_folders import fallback_folders, recent_failures
from holdfast.agents.receiver.program import find_program, try_program
from holdfast.domain.errors import BadInput
from holdfast.home import Home
from holdfast.ingress.spool import position_of, read_record
from holdfast.operations.doctor.finding import Finding, fail, ok, warn
from holdfast.operations.elapsed import span

STUCK_S = 60.0
READ_MAX = 100
TRIALS = 5


def check_spool(home: Home, alive: bool, now_s: float) -> list[Finding]:
    spool = home.spool
    if spool.is_dir() and not os.access(spool, os.W_OK | os.X_OK):
        return [fail("spool.waiting", f"{spool} is not writable", f"run: chmod 700 {spool}")]
    others = [folder for folder in fallback_folders(home.root) if _records(folder)]
    return [
        *_check_waiting(spool, alive, now_s),
        *(_check_fallback(folder, alive) for folder in others),
        *_check_rejected([spool, *fallback_folders(home.root)]),
    ]


def _check_waiting(spool: Path, alive: bool, now_s: float) -> list[Finding]:
    names = _records(spool)
    if not names:
        return [ok("spool.waiting", "no record waits to be imported")]
    broken = [name for name in sorted(names)[:READ_MAX] if _is_broken(spool / name)]
    oldest_s = max(now_s - _written_s(spool / name) for name in names)
    records = f"{_count(len(names), 'record')} in {spool}, the oldest for {span(oldest_s)}"
    found = []
    if alive and oldest_s > STUCK_S:
        todo = "check the daemon's log, and run: holdfast status"
        found.append(fail("spool.waiting", f"not imported: {records}", todo))
    elif alive:
        found.append(ok("spool.waiting", f"being imported: {records}"))
    else:
        found.append(warn("spool.waiting", f"waiting for a daemon: {records}", "start one: holdfast up"))
    if broken:
        text = f"{_count(len(broken), 'record')} in {spool} cannot be read, such as {broken[0]}"
        found.append(warn("spool.corrupt", text, "no action needed: the daemon moves such files to spool/rejected"))
    return found


def _check_fallback(folder: Path, alive: bool) -> Finding:
    count = _count(len(_records(folder)), "record")
    todo = "make the spool writable; the daemon imports them" if alive else "start a daemon: holdfast up"
    return warn("spool.fallback", f"{count} in the fallback folder {folder}", todo)


def _check_rejected(spools: Sequence[Path]) -> list[Finding]:
    found = []
    for folder in (spool / "rejected" for spool in spools):
        if names := _records(folder):
            text = f"{_count(len(names), 'record')} could not be imported: see {folder}"
            found.append(warn("spool.rejected", text, "inspect them, then delete them"))
    return found or [ok("spool.rejected", "no record was rejected")]


def check_troubles(home: Home, now_ms: int) -> list[Finding]:
    """Failures that receivers logged when they could not write to the spool."""
    failures = recent_failures(home.root, now_ms)
    todo = "free disk space, or make the spool writable"
    if not failures:
        return [ok("receiver.trouble", "no receiver logged a failure in the last day")]
    return [(fail if " lost " in text else warn)("receiver.trouble", text, todo) for text in failures]


def check_receiver(program: Sequence[str] | None = None) -> list[Finding]:
    """Run the receiver that hooks would run a few times, with a temporary folder as its spool."""
    program = list(program or find_program())
    times = [try_program(program) for _ in range(TRIALS)]
    worked = [taken for taken in times if taken is not None]
    if len(worked) < TRIALS:
        text = f"the receiver stored {len(worked)} of {TRIALS} events in a trial: {' '.join(program)}"
        return [fail("receiver", text, "reinstall Holdfast, then run: holdfast hooks install")]
    kind = "fast" if program[0].endswith("perl") else "Python"
    middle, worst = statistics.median(worked) * 1000, max(worked) * 1000
    text = f"the {kind} receiver stores an event in {middle:.0f} ms (slowest of {TRIALS}: {worst:.0f} ms)"
    return [ok("receiver", text)]


def _records(folder: Path) -> list[str]:
    try:
        return [name for name in os.listdir(folder) if position_of(name) is not None]
    except OSError:
        return []


def _is_broken(path: Path) -> bool:
    try:
        read_record(path)
    except FileNotFoundError:
        return False  # imported meanwhile
    except (BadInput, OSError):
        return True
    return False


def _written_s(path: Path) -> float:
    try:
        return path.lstat().st_mtime
    except OSError:
        return time.time()


def _count(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
