"""The background duty `spool`: import what receivers wrote, from the home's spool and from the fallback folders."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from holdfast.agents.receiver.fallback_folders import fallback_folders
from holdfast.file_watch import FileWatch
from holdfast.ingress.spool import position_of
from holdfast.logs import LogThrottle

SWEEP_S = 3600.0
POLL_S, NOTIFIED_POLL_S = 1.0, 5.0
UNFINISHED_S = 24 * 3600.0
"""Age at which an unfinished record is removed."""

log = logging.getLogger("holdfast.spool")


class Importer(Protocol):
    name: str

    async def tick(self) -> float | None: ...


class SpoolDuty:
    """Imports the fallback folders first, because their records are older, then the home's own spool."""

    name = "spool"

    def __init__(self, home: Path, main: Importer, make_importer: Callable[[Path], Importer]) -> None:
        self._home, self._main, self._make_importer = home, main, make_importer
        self._fallback_importers: dict[Path, Importer] = {}
        self._throttle = LogThrottle(log, burst=1, period_s=SWEEP_S)
        self._swept_s: float | None = None
        self._notified = False

    def watch(self, files: FileWatch, wake: Callable[[], None]) -> None:
        """Wake the duty when a record is written, if the operating system reports file changes."""
        watched = [
            files.watch(folder, lambda name: position_of(name) is not None, wake)
            for folder in (self._home / "spool", *fallback_folders(self._home))
        ]
        self._notified = all(watched)

    async def tick(self) -> float | None:
        delays = [await self._import_fallback(folder) for folder in fallback_folders(self._home)]
        delays.append(await self._main.tick())
        self._sweep()
        if any(delay == 0.0 for delay in delays):
            return 0.0
        return NOTIFIED_POLL_S if self._notified else POLL_S

    async def _import_fallback(self, folder: Path) -> float | None:
        if folder not in self._fallback_importers:
            self._fallback_importers[folder] = self._make_importer(folder)
        try:
            return await self._fallback_importers[folder].tick()
        except OSError as error:  # a broken fallback folder must not block the home's own spool
            self._throttle.log(logging.WARNING, folder, "cannot import fallback folder %s: %s", folder, error)
            return None

    def _sweep(self) -> None:
        """Once an hour, remove the unfinished records of receivers that were killed. They were never accepted."""
        now_s = time.monotonic()
        if self._swept_s is not None and now_s < self._swept_s + SWEEP_S:
            return
        self._swept_s = now_s
        for folder in (self._home / "spool", *fallback_folders(self._home)):
            remove_unfinished(folder, time.time() - UNFINISHED_S)


def remove_unfinished(folder: Path, before_s: float) -> int:
    """Remove unfinished records older than a Unix time; returns how many."""
    removed = 0
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name[:1] == "." and position_of(entry.name[1:]) and _modified_s(entry) < before_s:
                    os.unlink(entry.path)
                    removed += 1
    except OSError as error:
        if not isinstance(error, FileNotFoundError):
            log.warning("cannot remove unfinished records in %s: %s", folder, error)
    return removed


def _modified_s(entry: os.DirEntry[str]) -> float:
    return entry.stat(follow_symlinks=False).st_mtime
