"""Notices commits of other processes.

The file's change notice comes before the commit is visible: the writer still has to sync and to publish it. So one
notice is followed by several looks, soon at first and then less often. Polling alone would be correct too, and remains
as a slow backstop; the notice only shortens the wait.
"""

from __future__ import annotations

from collections.abc import Callable

from holdfast.file_watch import FileWatch
from holdfast.store.roles.maintenance import Maintenance

LOOKS_S = (0.0003, 0.0007, 0.001, 0.002, 0.004, 0.008, 0.034)
"""The pauses between looks after a notice."""
BUSY_S = 0.02
"""The pause between looks while this process itself commits, which causes notices all the time."""
BACKSTOP_S = 2.0
POLL_S = 0.05
"""Where nothing gives notice."""


class ChangeWatch:
    """Calls `changed` after another process committed."""

    name = "watch"

    def __init__(self, maintenance: Maintenance, changed: Callable[[], None]) -> None:
        self._maintenance, self._changed = maintenance, changed
        self._noticed = self._patient = False
        self._step = len(LOOKS_S)
        self._commits = -1
        self._idle_s = POLL_S
        self.wake: Callable[[], None] = lambda: None

    def watch(self, files: FileWatch) -> None:
        """Rely on notices for the store's files, where the system gives any."""
        paths = self._maintenance.watched_files()
        names = {path.name for path in paths}
        if not paths or files.watch(paths[0].parent, names.__contains__, self._notice):
            self._idle_s = BACKSTOP_S

    async def tick(self) -> float | None:
        if self._maintenance.changed_elsewhere():
            self._changed()
        noticed, self._noticed, self._patient = self._noticed, False, False
        if noticed:
            before, self._commits = self._commits, self._maintenance.commits()
            if before != self._commits:  # most likely our own commit was noticed
                self._patient, self._step = True, len(LOOKS_S) - 1
                return BUSY_S
            self._step = 0
        if self._step < len(LOOKS_S):
            self._step += 1
            return LOOKS_S[self._step - 1]
        return self._idle_s

    def _notice(self) -> None:
        self._noticed = True
        if not self._patient:
            self.wake()
