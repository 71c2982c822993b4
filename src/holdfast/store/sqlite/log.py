"""The write-ahead log, laid out ahead of small commits.

A commit that makes the log's file longer makes the file system sync its own journal as well; one into room that is
there already does not, and takes about two thirds of the time. So while small commits follow one another the log is
made a step longer at a time, with zeros, in a transaction that is about to be synced anyway.

Only ever beyond the end of the file, and only under the write lock: nobody else writes there meanwhile. To SQLite what
follows its last commit is not part of the log, whatever it is; it is found by salt and checksum.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

STEP_BYTES = 1 << 20
SMALL_BYTES = STEP_BYTES // 8

_ZEROS = bytes(STEP_BYTES)


class Log:
    """The log of one file. `has_room` says whether the disk can spare a step."""

    def __init__(self, path: Path, has_room: Callable[[], bool]) -> None:
        self._path, self._has_room = path, has_room
        self._descriptor: int | None = None
        self._end = 0
        self._closed = False

    def lay(self) -> None:
        """Call this with the write lock held, before a commit that is synced. What goes wrong here is no one's loss."""
        if self._closed:
            return
        try:
            if self._descriptor is None:
                self._descriptor = os.open(self._path, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
                self._end = os.fstat(self._descriptor).st_size
                return
            end = os.fstat(self._descriptor).st_size
            is_small, self._end = 0 < end - self._end <= SMALL_BYTES, end
            if is_small and self._has_room():
                self._end += os.pwrite(self._descriptor, _ZEROS, end)
        except OSError:  # the commit itself will find out, if it matters to it
            self.close()

    def close(self) -> None:
        self._closed = True
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
