"""What receivers could not put into the spool: they kept it in a fallback folder, and left a line in a log."""

from __future__ import annotations

import json
import logging
import os
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from holdfast.agents.receiver.intake import fallbacks
from holdfast.file_watch import FileWatch
from holdfast.ingress.importer import spool_depth
from holdfast.ingress.spool import position_of

LOG_NAME = "receiver.log"
TAIL_BYTES = 64 * 1024
RECENT_MS = 24 * 3600 * 1000
SWEEP_S = 3600.0
POLL_S, NOTICED_POLL_S = 1.0, 5.0
UNFINISHED_S = 24 * 3600.0

log = logging.getLogger("holdfast.spool")


class Importer(Protocol):
    name: str

    async def tick(self) -> float | None: ...


class Spools:
    """The duty `spool`: the fallback folders first, since what lies there is older, then the home's own spool."""

    name = "spool"

    def __init__(self, home: Path, main: Importer, importer: Callable[[Path], Importer]) -> None:
        self._home, self._main, self._importer = home, main, importer
        self._others: dict[Path, Importer] = {}
        self._failed: set[Path] = set()
        self._swept_s: float | None = None
        self._noticed = False

    def watch(self, files: FileWatch, wake: Callable[[], None]) -> None:
        """Wake the duty when a record is written, where the system gives notice of that."""
        watched = [
            files.watch(folder, lambda name: position_of(name) is not None, wake)
            for folder in (self._home / "spool", *folders(self._home))
        ]
        self._noticed = all(watched)

    async def tick(self) -> float | None:
        waits = [await self._tick(folder) for folder in folders(self._home)]
        waits.append(await self._main.tick())
        self._sweep()
        if any(wait == 0.0 for wait in waits):
            return 0.0
        return NOTICED_POLL_S if self._noticed else POLL_S

    async def _tick(self, folder: Path) -> float | None:
        if folder not in self._others:
            self._others[folder] = self._importer(folder)
        try:
            return await self._others[folder].tick()
        except OSError as error:  # the home's own spool must not wait for it
            if folder not in self._failed:
                self._failed.add(folder)
                log.warning("the fallback folder %s cannot be imported: %s", folder, error)
            return None

    def _sweep(self) -> None:
        """Now and then, remove what writers that were killed left unfinished: it was never accepted."""
        now_s = time.monotonic()
        if self._swept_s is not None and now_s < self._swept_s + SWEEP_S:
            return
        self._swept_s = now_s
        for folder in (self._home / "spool", *folders(self._home)):
            remove_unfinished(folder, time.time() - UNFINISHED_S)


def folders(home: Path) -> list[Path]:
    """The fallback folders that exist for a home and are safe to read: ours, and closed to everybody else."""
    found = []
    for root in (os.fsencode(home), None):
        for parent, key in fallbacks(root):
            if _is_ours(parent) and _is_ours(parent + b"/" + key):
                found.append(Path(os.fsdecode(parent + b"/" + key)))
    return found


def waiting(home: Path) -> int:
    """How many records wait to be imported, wherever they were put."""
    return sum(spool_depth(folder) for folder in (home / "spool", *folders(home)))


def troubles(home: Path, now_ms: int) -> list[str]:
    """What receivers told in the last day of spools they could not write, in at most two sentences."""
    lines = [line for folder in (home, *folders(home)) for line in _tail(folder / LOG_NAME)]
    recent = sorted((line for line in lines if now_ms - RECENT_MS <= line["at"]), key=lambda line: int(line["at"]))
    told = []
    for kept, fate in ((False, "lost"), (True, "kept in a fallback folder")):
        some = [line for line in recent if (line.get("kept") is not None) == kept]
        if some:
            what = "1 hook event was" if len(some) == 1 else f"{len(some)} hook events were"
            why = str(some[-1].get("why"))[:200]
            told.append(f"{what} {fate} within a day: the spool of {home} could not be written ({why})")
    return told


def remove_unfinished(folder: Path, before_s: float) -> int:
    removed = 0
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name[:1] == "." and position_of(entry.name[1:]) and _written_s(entry) < before_s:
                    os.unlink(entry.path)
                    removed += 1
    except OSError as error:
        if not isinstance(error, FileNotFoundError):
            log.warning("unfinished records in %s cannot be removed: %s", folder, error)
    return removed


def _written_s(entry: os.DirEntry[str]) -> float:
    return entry.stat(follow_symlinks=False).st_mtime


def _is_ours(folder: bytes) -> bool:
    try:
        found = os.lstat(folder)
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o077


def _tail(path: Path) -> list[dict[str, Any]]:
    """The last lines of a log, as far as they can be read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return []
    try:
        found = os.fstat(descriptor)
        start = max(0, found.st_size - TAIL_BYTES)
        lines = os.pread(descriptor, TAIL_BYTES, start).split(b"\n") if stat.S_ISREG(found.st_mode) else []
    finally:
        os.close(descriptor)
    if start:
        del lines[0]
    return [line for line in map(_parse, lines) if line is not None]


def _parse(raw: bytes) -> dict[str, Any] | None:
    try:
        line = json.loads(raw)
    except ValueError:
        return None
    return line if isinstance(line, dict) and isinstance(line.get("at"), int) else None
