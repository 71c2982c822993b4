"""What waits to be imported, what could not be, and whether a hook that fires now would be kept."""

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
        return [fail("spool.waiting", f"{spool} cannot be written", f"run: chmod 700 {spool}")]
    others = [folder for folder in fallback_folders(home.root) if _records(folder)]
    return [
        *_check_waiting(spool, alive, now_s),
        *(_check_fallback(folder, alive) for folder in others),
        *_check_rejected([spool, *fallback_folders(home.root)]),
    ]


def _check_waiting(spool: Path, alive: bool, now_s: float) -> list[Finding]:
    names = _records(spool)
    if not names:
        return [ok("spool.waiting", "nothing waits to be imported")]
    broken = [name for name in sorted(names)[:READ_MAX] if _is_broken(spool / name)]
    oldest_s = max(now_s - _written_s(spool / name) for name in names)
    waits = f"{_count(len(names), 'record')} in {spool}, the oldest for {span(oldest_s)}"
    found = []
    if alive and oldest_s > STUCK_S:
        found.append(fail("spool.waiting", f"stuck: {waits}", "look at the daemon's log, and at: holdfast status"))
    elif alive:
        found.append(ok("spool.waiting", f"on their way: {waits}"))
    else:
        found.append(warn("spool.waiting", f"waiting for a daemon: {waits}", "start one: holdfast up"))
    if broken:
        text = f"{_count(len(broken), 'record')} in {spool} cannot be read, such as {broken[0]}"
        found.append(warn("spool.corrupt", text, "the daemon will set such files aside in spool/rejected and tell it"))
    return found


def _check_fallback(folder: Path, alive: bool) -> Finding:
    count = _count(len(_records(folder)), "record")
    todo = "make the spool writable; the daemon imports them" if alive else "start a daemon: holdfast up"
    return warn("spool.fallback", f"{count} in the fallback folder {folder}", todo)


def _check_rejected(spool_duty: Sequence[Path]) -> list[Finding]:
    found = []
    for folder in (spool / "rejected" for spool in spool_duty):
        if names := _records(folder):
            text = f"{_count(len(names), 'record')} could not be imported and lie in {folder}"
            found.append(warn("spool.rejected", text, "read them, and remove them when they are understood"))
    return found or [ok("spool.rejected", "every record could be imported")]


def check_troubles(home: Home, now_ms: int) -> list[Finding]:
    """What receivers wrote down when they could not write the spool."""
    told = recent_failures(home.root, now_ms)
    todo = "make room, or make the spool writable"
    if not told:
        return [ok("receiver.trouble", "no receiver told of trouble within a day")]
    return [(fail if " lost " in text else warn)("receiver.trouble", text, todo) for text in told]


def check_receiver(program: Sequence[str] | None = None) -> list[Finding]:
    """Let the receiver that hooks would run keep an event in a folder of its own, a few times."""
    program = list(program or find_program())
    times = [try_program(program) for _ in range(TRIALS)]
    worked = [taken for taken in times if taken is not None]
    if len(worked) < TRIALS:
        text = f"the receiver kept {len(worked)} of {TRIALS} events in a trial: {' '.join(program)}"
        return [fail("receiver", text, "install Holdfast again, then run: holdfast hooks install")]
    kind = "fast" if program[0].endswith("perl") else "Python"
    middle, worst = statistics.median(worked) * 1000, max(worked) * 1000
    text = f"the {kind} receiver keeps an event in {middle:.0f} ms (the slowest of {TRIALS} took {worst:.0f} ms)"
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
