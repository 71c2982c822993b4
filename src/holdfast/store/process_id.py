"""An identity for a process that is never reused, so that others on the machine can check whether it still runs."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from holdfast.ports import SystemClock

_UNKNOWN = "-"


class ProcessId(NamedTuple):
    """What a pid alone does not say: on which machine it is valid, and when the process started.

    `machine` is the boot id and the pid namespace. `started` is the start time, which distinguishes the process from a
    later one with the same pid; it is "-" where the system does not provide it.
    """

    machine: str
    started: str

    def __str__(self) -> str:
        return f"{self.machine}/{self.started}"


def own_process_id() -> ProcessId:
    """This process, as stored in its owner row."""
    return ProcessId(_machine(), _started(os.getpid()) or _UNKNOWN)


def parse_process_id(text: str | None) -> ProcessId:
    machine, _, started = (text or "").rpartition("/")
    return ProcessId(machine, started)


def is_running(pid: int, process_id: ProcessId) -> bool | None:
    """Whether exactly this process is running; None if that cannot be determined from here."""
    if process_id.started == _UNKNOWN or process_id.machine != _machine():
        return None
    started = _started(pid)
    return None if started is None and _is_hidden(pid) else started == process_id.started


@lru_cache(1)
def _machine() -> str:
    try:
        namespace = os.readlink("/proc/self/ns/pid")
    except OSError:  # not Linux: one pid namespace, and start times are not available
        namespace = _UNKNOWN
    return f"{SystemClock().boot_id}/{namespace}"


def _is_hidden(pid: int) -> bool:
    """Whether the process exists but belongs to another user: some systems hide those in /proc."""
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except OSError:
        pass
    return False


def _started(pid: int) -> str | None:
    """Start time of a process in ticks since boot; None if it is not running. A zombie counts as not running."""
    try:
        words = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        return None if words[0] in ("Z", "X") else words[19]
    except (OSError, IndexError):
        return None
