"""Detects commits of other processes.

The file system reports a change before the commit is visible: the writer still has to sync and publish it. So one
notification is followed by several checks, at short and then longer intervals. Polling alone would be correct too, and
remains as a slow backstop; the notification only shortens the wait.
"""

from __future__ import annotations

from collections.abc import Callable

from holdfast.file_watch import FileWatch
from holdfast.store.roles.maintenance import Maintenance

CHECKS_S = (0.0003, 0.0007, 0.001, 0.002, 0.004, 0.008, 0.034)
"""Seconds between checks after a notification."""
BUSY_S, BUSY_MAX_S = 0.001, 0.02
"""Seconds between checks while this process itself commits, which causes notifications too. They double while it keeps
committing, so that a busy process checks rarely and a process with little to do checks soon."""
AFTER_BUSY = 3
"""Where in `CHECKS_S` the checks go on after that: a commit of another process may have been noticed together."""
BACKSTOP_S = 2.0
POLL_S = 0.05
"""Seconds between checks where the system has no notifications."""


class ChangeWatch:
    """Calls `changed` after another process committed."""

    name = "watch"

    def __init__(self, maintenance: Maintenance, changed: Callable[[], None]) -> None:
        self._maintenance, self._changed = maintenance, changed
        self._noticed = self._busy = False
        self._step = len(CHECKS_S)
        self._commits = -1
        self._busy_s = BUSY_S
        self._idle_s = POLL_S
        self.wake: Callable[[], None] = lambda: None

    def watch(self, files: FileWatch) -> None:
        """Use the system's notifications for the store's files, if it has any."""
        paths = self._maintenance.watched_files()
        names = {path.name for path in paths}
        if not paths or files.watch(paths[0].parent, names.__contains__, self._notice):
            self._idle_s = BACKSTOP_S

    async def tick(self) -> float | None:
        if self._maintenance.changed_elsewhere():
            self._changed()
        noticed, self._noticed, self._busy = self._noticed, False, False
        if noticed:
            before, self._commits = self._commits, self._maintenance.commits()
            if before != self._commits:  # most likely our own commit was noticed
                self._busy, self._step = True, AFTER_BUSY
                pause_s, self._busy_s = self._busy_s, min(2 * self._busy_s, BUSY_MAX_S)
                return pause_s
            self._step = 0
        self._busy_s = BUSY_S
        if self._step < len(CHECKS_S):
            self._step += 1
            return CHECKS_S[self._step - 1]
        return self._idle_s

    def _notice(self) -> None:
        self._noticed = True
        if not self._busy:
            self.wake()
