"""A transcript as a file that another program is writing: opened with care, read in whole lines, known again later."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import NamedTuple

from holdfast.agents.transcripts.entry import Record
from holdfast.domain.errors import BadInput
from holdfast.domain.text import short_repr

SUFFIX = ".jsonl"
HEAD_BYTES = 4096
FIRST_LINE_MAX = 256 * 1024
TAIL_BYTES = 64
LINE_MAX = 4 * 1024 * 1024
SCAN_MAX = 256 * 1024 * 1024
_CHUNK = 256 * 1024


class Signature(NamedTuple):
    """What a look at the folder tells of a file; while it is the same, there is nothing to read."""

    inode: int
    size: int
    changed_ns: int


@dataclass(frozen=True, slots=True)
class Mark:
    """By what a file is known again: how it begins, and what stands right before the place that was read to."""

    head: str
    tail: bytes


@dataclass(frozen=True, slots=True)
class Lines:
    """Whole lines with the offsets at which they begin. `more`: the bound was reached before the end of the file."""

    found: list[tuple[int, bytes]]
    next_offset: int
    oversized: int = 0
    more: bool = False


@contextmanager
def opened(path: str) -> Iterator[Transcript]:
    """Open a transcript: one of ours, a plain file, named outright. Anything else is refused.

    The path comes from a hook's payload, so it may be anything. Opening does not wait (as a FIFO would make us) and
    does not follow a link in the last place.
    """
    check_path(path)
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):  # a link; a socket
            raise BadInput(f"the transcript {short_repr(path)} is not a plain file") from None
        raise
    try:
        facts = os.fstat(fd)
        _check_facts(path, facts)
        yield Transcript(fd, facts)
    finally:
        os.close(fd)


def look(path: str) -> Signature:
    """Without opening it."""
    check_path(path)
    facts = os.lstat(path)
    _check_facts(path, facts)
    return _signature(facts)


def glance(path: str) -> Signature | str:
    """As `look`, or why the file cannot be read now."""
    try:
        return look(path)
    except OSError as error:
        return f"{type(error).__name__}: {error.strerror}"
    except BadInput as error:
        return error.message


def check_path(path: str) -> None:
    pure = PurePosixPath(path)
    if not pure.is_absolute() or ".." in pure.parts or "\x00" in path or pure.suffix != SUFFIX:
        raise BadInput(f"the transcript {short_repr(path)} is not an absolute path to a {SUFFIX} file without '..'")


def parse(line: bytes) -> Record | None:
    """The object in a line, or None."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


class Transcript:
    """An open transcript. Every read says from where and how much."""

    def __init__(self, fd: int, facts: os.stat_result) -> None:
        self._fd = fd
        self.signature = _signature(facts)

    @property
    def size(self) -> int:
        return self.signature.size

    def piece(self, offset: int, count: int) -> bytes:
        pieces: list[bytes] = []
        while count > 0 and (piece := os.pread(self._fd, min(count, _CHUNK), offset)):
            pieces.append(piece)
            offset, count = offset + len(piece), count - len(piece)
        return b"".join(pieces)

    def first(self) -> Record:
        """The first line, which tells whose transcript this is."""
        raw, end, _ = self.piece(0, FIRST_LINE_MAX).partition(b"\n")
        return (parse(raw) if end else None) or {}

    def head(self) -> str | None:
        """How the file begins; None while not even its first line is written."""
        raw, end, _ = self.piece(0, HEAD_BYTES).partition(b"\n")
        if not end and len(raw) < HEAD_BYTES:
            return None
        return hashlib.sha256(raw).hexdigest()[:32]

    def mark(self, offset: int) -> Mark | None:
        head = self.head()
        return None if head is None else Mark(head, self._before(offset))

    def fits(self, offset: int, mark: Mark | None) -> bool:
        """Whether this still is the file that was read up to this place."""
        if offset > self.size:
            return False
        before = self._before(offset)
        if offset and not before.endswith(b"\n"):
            return False
        return mark is None or (before == mark.tail and self.head() == mark.head)

    def lines(self, offset: int, most_bytes: int) -> Lines:
        """The whole lines from there on, at least one if there is one. A half-written one is left for the next time."""
        raw = self.piece(offset, most_bytes)
        end = raw.rfind(b"\n") + 1
        if not end and len(raw) == most_bytes:
            raw = self.piece(offset, LINE_MAX + 1)
            end = raw.find(b"\n") + 1
            if not end and len(raw) > LINE_MAX:
                return self._skip(offset)
        found: list[tuple[int, bytes]] = []
        oversized, at = 0, offset
        for line in raw[:end].split(b"\n")[:-1]:
            if len(line) > LINE_MAX:
                oversized += 1
            elif line.strip():
                found.append((at, line))
            at += len(line) + 1
        return Lines(found, at, oversized, more=bool(end) and len(raw) >= min(most_bytes, LINE_MAX))

    def _skip(self, offset: int) -> Lines:
        """Past a line that is too long to be held, without holding it."""
        at, until = offset + LINE_MAX, offset + SCAN_MAX
        while at < until and (piece := self.piece(at, _CHUNK)):
            found = piece.find(b"\n")
            if found >= 0:
                return Lines([], at + found + 1, oversized=1, more=True)
            at += len(piece)
        return Lines([], offset)

    def _before(self, offset: int) -> bytes:
        count = min(offset, TAIL_BYTES)
        return self.piece(offset - count, count)


def _check_facts(path: str, facts: os.stat_result) -> None:
    if not stat.S_ISREG(facts.st_mode):
        raise BadInput(f"the transcript {short_repr(path)} is not a plain file")
    if facts.st_uid != os.geteuid():
        raise BadInput(f"the transcript {short_repr(path)} belongs to another user")


def _signature(facts: os.stat_result) -> Signature:
    return Signature(facts.st_ino, facts.st_size, facts.st_mtime_ns)
