"""A mark on a process, by which others on the same machine can tell whether that very one still runs."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from holdfast.ports import SystemClock

_UNKNOWN = "-"


class Mark(NamedTuple):
    """Which process this is. `machine`: the boot and the namespace in which its number is its own; `began`: when it
    began, which tells it from a later one with the same number, where the system says so."""

    machine: str
    began: str

    def __str__(self) -> str:
        return f"{self.machine}/{self.began}"


def own_mark() -> Mark:
    """This process, as others find it in its owner's row."""
    return Mark(_machine(), _began(os.getpid()) or _UNKNOWN)


def read_mark(text: str | None) -> Mark:
    machine, _, began = (text or "").rpartition("/")
    return Mark(machine, began)


def runs(pid: int, mark: Mark) -> bool | None:
    """Whether that very process runs; None: nobody here can know."""
    if mark.began == _UNKNOWN or mark.machine != _machine():
        return None
    began = _began(pid)
    return None if began is None and _is_hidden(pid) else began == mark.began


@lru_cache(1)
def _machine() -> str:
    try:
        namespace = os.readlink("/proc/self/ns/pid")
    except OSError:  # not Linux: there is one for all, and nobody's beginning is known
        namespace = _UNKNOWN
    return f"{SystemClock().boot_id}/{namespace}"


def _is_hidden(pid: int) -> bool:
    """Whether it is there, and only somebody else's: some systems hide those."""
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except OSError:
        pass
    return False


def _began(pid: int) -> str | None:
    """When a process began, in ticks since boot; None if it does not run. One that waits to be buried does not."""
    try:
        words = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        return None if words[0] in ("Z", "X") else words[19]
    except (OSError, IndexError):
        return None
