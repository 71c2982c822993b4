"""Decide whether another owner has died or only lost its connection.

The server frees an owner's lock when its session ends. A session can end while its process is still working: it was
terminated, the server restarts, the network fails. Taking over the leases then would run that work a second time. For a
process on this machine the operating system knows: while it runs it keeps its leases until they expire, and if it does
not run it loses them at once. For a process on another machine there is only time: a live one reconnects soon.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import Any

from holdfast.store.process_id import ProcessId, is_running, own_process_id, parse_process_id

RECONNECT_S = 0.5
"""How long an owner on another machine may take to reconnect."""
TROUBLED_S = 5.0
"""The same while our own connection is lost too: the server is the cause, and all reconnect with growing pauses."""


class OwnerCheck:
    """`here`: whether an owner works in this process; `recently_disconnected`: whether our own connection was lost."""

    def __init__(self, here: Callable[[int], bool], recently_disconnected: Callable[[], bool]) -> None:
        self._here, self._recently_disconnected = here, recently_disconnected
        self._missed: dict[int, float] = {}

    @property
    def undecided(self) -> bool:
        """Whether an owner is missing and only time can show whether it died."""
        return bool(self._missed)

    def gone(self, missing: Sequence[Any]) -> list[int]:
        """The owners that died, among those without a lock (owner, pid, process id)."""
        now_s, wait_s = time.monotonic(), TROUBLED_S if self._recently_disconnected() else RECONNECT_S
        missed_before, self._missed = self._missed, {}
        dead = []
        for owner, pid, text in missing:
            alive = self._is_running(owner, pid, parse_process_id(text))
            since_s = missed_before.get(owner, now_s)
            if alive is False or (alive is None and now_s - since_s >= wait_s):
                dead.append(owner)
            elif alive is None:
                self._missed[owner] = since_s
        return dead

    def _is_running(self, owner: int, pid: int | None, process_id: ProcessId) -> bool | None:
        if pid is None:
            return False  # its row was removed, which happens a day after its end
        if pid == os.getpid() and process_id == own_process_id():
            return self._here(owner)
        return is_running(pid, process_id)
