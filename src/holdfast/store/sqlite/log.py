"""Preallocation of the write-ahead log, which makes small commits faster.

A commit that extends the log file makes the file system sync its own journal as well. A commit into space that is
already allocated does not, and takes about two thirds of the time. While small commits follow one another, the log is
extended by `STEP_BYTES` of zeros at a time, in a transaction that is about to be synced anyway.

Zeros are written only after the end of the file and only under the write lock, so no other process writes there at the
same time. SQLite finds the end of the log by salt and checksum, so it ignores whatever follows the last commit.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

STEP_BYTES = 1 << 20
SMALL_BYTES = STEP_BYTES // 8

_ZEROS = bytes(STEP_BYTES)


class Log:
    """The log of one database. `has_space`: whether the disk has space for another step."""

    def __init__(self, path: Path, has_space: Callable[[], bool]) -> None:
        self._path, self._has_space = path, has_space
        self._descriptor: int | None = None
        self._end = 0
        self._closed = False

    def extend(self) -> None:
        """Call this with the write lock held, before a commit that is synced. An error here is harmless."""
        if self._closed:
            return
        try:
            if self._descriptor is None:
                self._descriptor = os.open(self._path, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
                self._end = os.fstat(self._descriptor).st_size
                return
            end = os.fstat(self._descriptor).st_size
            is_small, self._end = 0 < end - self._end <= SMALL_BYTES, end
            if is_small and self._has_space():
                self._end += os.pwrite(self._descriptor, _ZEROS, end)
        except OSError:  # if it matters, the commit fails too
            self.close()

    def close(self) -> None:
        self._closed = True
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
