"""Detects file changes in a folder without polling: inotify on Linux, kqueue on macOS and BSD.

If neither is available (another system, or no file descriptors left), `watch` returns False and the caller polls.
"""

from __future__ import annotations

import logging
import select
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

log = logging.getLogger("holdfast")


class FileWatch(Protocol):
    """Calls back, on the event loop, when files change."""

    def watch(self, folder: Path, wanted: Callable[[str], bool], changed: Callable[[], None]) -> bool:
        """Call `changed` when a file in the folder whose name is `wanted` is written, made, moved or removed."""

    def close(self) -> None: ...


class NoWatch:
    """For systems without file notification: the caller polls."""

    def watch(self, folder: Path, wanted: Callable[[str], bool], changed: Callable[[], None]) -> bool:
        return False

    def close(self) -> None:
        pass


def open_file_watch() -> FileWatch:
    """The file watch of this system. Must be called on the event loop."""
    try:
        if sys.platform == "linux":
            from holdfast.file_watch.inotify import Inotify

            return Inotify()
        if hasattr(select, "kqueue"):  # type: ignore[unreachable,unused-ignore]
            from holdfast.file_watch.kqueue import Kqueue

            return Kqueue()
    except OSError as error:
        log.info("file changes cannot be watched, so they are polled: %s", error)
    return NoWatch()
