"""Neighbours: one who holds leases gives no sign of life. Is he gone, or has he only lost his connection?

The server frees an owner's lock with its session, and a session may end while its process lives and is in the middle
of its work: somebody terminates it, the server restarts, a network breaks off. Whoever took his leases then would run
that work a second time. On our own machine the system knows: a process that runs keeps its leases for as long as they
last, and one that does not has lost them at once. Of other machines we only know that whoever lives comes back soon.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from holdfast.ports import SystemClock

BACK_S = 0.5
"""How long one on another machine may need to come back after a moment's loss of its session."""
TROUBLED_S = 5.0
"""The same while our own sessions are lost too: then it is the server, and all come back with growing pauses."""

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


class Neighbours:
    """`here` says whether an owner works in this process; `troubled` whether our own sessions were lost lately."""

    def __init__(self, here: Callable[[int], bool], troubled: Callable[[], bool]) -> None:
        self._here, self._troubled = here, troubled
        self._missed: dict[int, float] = {}

    @property
    def doubtful(self) -> bool:
        """Whether somebody is missed of whom only time can tell."""
        return bool(self._missed)

    def gone(self, missing: Sequence[Any]) -> list[int]:
        """Of those without a sign of life (owner, pid, mark), the ones that will not come back."""
        now_s, patience_s = time.monotonic(), TROUBLED_S if self._troubled() else BACK_S
        missed, self._missed = self._missed, {}
        found = []
        for owner, pid, text in missing:
            alive = self._lives(owner, pid, read_mark(text))
            since_s = missed.get(owner, now_s)
            if alive is False or (alive is None and now_s - since_s >= patience_s):
                found.append(owner)
            elif alive is None:
                self._missed[owner] = since_s
        return found

    def _lives(self, owner: int, pid: int | None, mark: Mark) -> bool | None:
        if pid is None:
            return False  # its row was removed: that happens a day after its end
        if pid == os.getpid() and mark == own_mark():
            return self._here(owner)
        return runs(pid, mark)


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
