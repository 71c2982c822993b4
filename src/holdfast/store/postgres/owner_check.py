"""OwnerCheck: one who holds leases gives no sign of life. Is he gone, or has he only lost his connection?

The server frees an owner's lock with its session, and a session may end while its process lives and is in the middle
of its work: somebody terminates it, the server restarts, a network breaks off. Whoever took his leases then would run
that work a second time. On our own machine the system knows: a process that runs keeps its leases for as long as they
last, and one that does not has lost them at once. Of other machines we only know that whoever lives comes back soon.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import Any

from holdfast.store.process_id import ProcessId, is_running, own_process_id, parse_process_id

BACK_S = 0.5
"""How long one on another machine may need to come back after a moment's loss of its session."""
TROUBLED_S = 5.0
"""The same while our own sessions are lost too: then it is the server, and all come back with growing pauses."""


class OwnerCheck:
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
            alive = self._lives(owner, pid, parse_process_id(text))
            since_s = missed.get(owner, now_s)
            if alive is False or (alive is None and now_s - since_s >= patience_s):
                found.append(owner)
            elif alive is None:
                self._missed[owner] = since_s
        return found

    def _lives(self, owner: int, pid: int | None, mark: ProcessId) -> bool | None:
        if pid is None:
            return False  # its row was removed: that happens a day after its end
        if pid == os.getpid() and mark == own_process_id():
            return self._here(owner)
        return is_running(pid, mark)
