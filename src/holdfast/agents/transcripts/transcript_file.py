"""A transcript file that a CLI is still writing: opened safely, read in whole lines, recognized again later."""

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

from holdfast.domain.errors import BadInput
from holdfast.domain.json_value import JsonObject
from holdfast.domain.text import short_repr

SUFFIX = ".jsonl"
HEAD_BYTES = 4096
FIRST_LINE_MAX = 256 * 1024
TAIL_BYTES = 64
LINE_MAX = 4 * 1024 * 1024
SCAN_MAX = 256 * 1024 * 1024
_CHUNK = 256 * 1024


class Signature(NamedTuple):
    """The state of a file from `stat`. While it is the same, there is nothing new to read."""

    inode: int
    size: int
    changed_ns: int


@dataclass(frozen=True, slots=True)
class FileMark:
    """Identifies a file and a read position in it: a digest of its first line, and the bytes before the position."""

    head: str
    tail: bytes


@dataclass(frozen=True, slots=True)
class Lines:
    """Whole lines with their offsets. `more`: the size limit was reached before the end of the file."""

    lines: list[tuple[int, bytes]]
    next_offset: int
    oversized: int = 0
    more: bool = False


@contextmanager
def open_transcript(path: str) -> Iterator[Transcript]:
    """Open a transcript. It must be a regular file of this user, given by its absolute path.

    The path comes from a hook's payload, so it may be anything. Opening does not block (a FIFO would) and does not
    follow a symbolic link in the last path component.
    """
    check_path(path)
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):  # a link; a socket
            raise BadInput(f"the transcript {short_repr(path)} is not a regular file") from None
        raise
    try:
        status = os.fstat(fd)
        _check_stat(path, status)
        yield Transcript(fd, status)
    finally:
        os.close(fd)


def stat_transcript(path: str) -> Signature:
    """The state of a transcript, without opening it; the checks are the same as in `open_transcript`."""
    check_path(path)
    status = os.lstat(path)
    _check_stat(path, status)
    return _signature(status)


def try_stat(path: str) -> Signature | str:
    """As `stat_transcript`; returns the reason if the file cannot be read."""
    try:
        return stat_transcript(path)
    except OSError as error:
        return f"{type(error).__name__}: {error.strerror}"
    except BadInput as error:
        return error.message


def check_path(path: str) -> None:
    pure = PurePosixPath(path)
    if not pure.is_absolute() or ".." in pure.parts or "\x00" in path or pure.suffix != SUFFIX:
        raise BadInput(f"the transcript {short_repr(path)} is not an absolute path to a {SUFFIX} file without '..'")


def parse(line: bytes) -> JsonObject | None:
    """The object in a line, or None."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


class Transcript:
    """An open transcript. It keeps no read position."""

    def __init__(self, fd: int, status: os.stat_result) -> None:
        self._fd = fd
        self.signature = _signature(status)

    @property
    def size(self) -> int:
        return self.signature.size

    def piece(self, offset: int, count: int) -> bytes:
        pieces: list[bytes] = []
        while count > 0 and (piece := os.pread(self._fd, min(count, _CHUNK), offset)):
            pieces.append(piece)
            offset, count = offset + len(piece), count - len(piece)
        return b"".join(pieces)

    def first(self) -> JsonObject:
        """The first line, which identifies the session."""
        raw, end, _ = self.piece(0, FIRST_LINE_MAX).partition(b"\n")
        return (parse(raw) if end else None) or {}

    def head(self) -> str | None:
        """A digest of the first line; None while the first line is incomplete."""
        raw, end, _ = self.piece(0, HEAD_BYTES).partition(b"\n")
        if not end and len(raw) < HEAD_BYTES:
            return None
        return hashlib.sha256(raw).hexdigest()[:32]

    def mark(self, offset: int) -> FileMark | None:
        head = self.head()
        return None if head is None else FileMark(head, self._before(offset))

    def fits(self, offset: int, mark: FileMark | None) -> bool:
        """Whether this is still the file that was read up to this offset."""
        if offset > self.size:
            return False
        before = self._before(offset)
        if offset and not before.endswith(b"\n"):
            return False
        return mark is None or (before == mark.tail and self.head() == mark.head)

    def lines(self, offset: int, max_bytes: int) -> Lines:
        """The whole lines from an offset on, at least one if there is one. An incomplete last line is left out."""
        raw = self.piece(offset, max_bytes)
        end = raw.rfind(b"\n") + 1
        if not end and len(raw) == max_bytes:
            raw = self.piece(offset, LINE_MAX + 1)
            end = raw.find(b"\n") + 1
            if not end and len(raw) > LINE_MAX:
                return self._skip(offset)
        lines: list[tuple[int, bytes]] = []
        oversized, at = 0, offset
        for line in raw[:end].split(b"\n")[:-1]:
            if len(line) > LINE_MAX:
                oversized += 1
            elif line.strip():
                lines.append((at, line))
            at += len(line) + 1
        return Lines(lines, at, oversized, more=bool(end) and len(raw) >= min(max_bytes, LINE_MAX))

    def _skip(self, offset: int) -> Lines:
        """Skip a line that is too long for memory."""
        at, until = offset + LINE_MAX, offset + SCAN_MAX
        while at < until and (piece := self.piece(at, _CHUNK)):
            end = piece.find(b"\n")
            if end >= 0:
                return Lines([], at + end + 1, oversized=1, more=True)
            at += len(piece)
        return Lines([], offset)

    def _before(self, offset: int) -> bytes:
        count = min(offset, TAIL_BYTES)
        return self.piece(offset - count, count)


def _check_stat(path: str, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise BadInput(f"the transcript {short_repr(path)} is not a regular file")
    if status.st_uid != os.geteuid():
        raise BadInput(f"the transcript {short_repr(path)} belongs to another user")


def _signature(status: os.stat_result) -> Signature:
    return Signature(status.st_ino, status.st_size, status.st_mtime_ns)
