"""Fallback folders: where receivers put records, and a log line, when they cannot write the home's spool."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import NamedTuple

from holdfast.agents.receiver.intake import fallbacks
from holdfast.ingress.importer import spool_depth

LOG_NAME = "receiver.log"
TAIL_BYTES = 64 * 1024
RECENT_MS = 24 * 3600 * 1000


class LogLine(NamedTuple):
    """A line of a receiver's log: an event that could not be written to the spool."""

    at_ms: int
    kept: bool
    why: str


def fallback_folders(home: Path) -> list[Path]:
    """The existing fallback folders of a home that are safe to read: owned by this user, closed to everyone else."""
    found = []
    for root in (os.fsencode(home), None):
        for parent, key in fallbacks(root):
            if _is_private(parent) and _is_private(parent + b"/" + key):
                found.append(Path(os.fsdecode(parent + b"/" + key)))
    return found


def count_waiting(home: Path) -> int:
    """The number of records that wait to be imported, in the spool and in all fallback folders."""
    return sum(spool_depth(folder) for folder in (home / "spool", *fallback_folders(home)))


def recent_failures(home: Path, now_ms: int) -> list[str]:
    """One sentence about lost events and one about redirected events of the last 24 hours, from the receivers' logs."""
    lines = [line for folder in (home, *fallback_folders(home)) for line in _tail(folder / LOG_NAME)]
    recent = sorted((line for line in lines if now_ms - RECENT_MS <= line.at_ms), key=lambda line: line.at_ms)
    sentences = []
    for kept, outcome in ((False, "lost"), (True, "kept in a fallback folder")):
        matching = [line for line in recent if line.kept == kept]
        if matching:
            count = "1 hook event was" if len(matching) == 1 else f"{len(matching)} hook events were"
            reason = matching[-1].why[:200]
            sentences.append(f"{count} {outcome} in the last 24 hours: cannot write the spool of {home} ({reason})")
    return sentences


def _is_private(folder: bytes) -> bool:
    try:
        found = os.lstat(folder)
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o077


def _tail(path: Path) -> list[LogLine]:
    """The last lines of a log that are valid JSON."""
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


def _parse(raw: bytes) -> LogLine | None:
    try:
        line = json.loads(raw)
    except ValueError:
        return None
    if not isinstance(line, dict) or not isinstance(line.get("at"), int):
        return None
    return LogLine(line["at"], line.get("kept") is not None, str(line.get("why")))
