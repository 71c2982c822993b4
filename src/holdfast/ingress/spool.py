"""The spool: short-lived processes append events as files, without opening the database.

A record is one file: a header line of JSON, then the bytes of the payload. The file is created exclusively, written,
synced and renamed, and its folder is synced; only then is the event accepted. The name contains the boot id and the
nanoseconds since boot, so that a record finished before another was started sorts before it.
"""

from __future__ import annotations

import json
import os
import re
import socket
import stat
import time
from pathlib import Path
from typing import NamedTuple

from holdfast.domain.errors import BadInput
from holdfast.domain.event import NewEvent
from holdfast.domain.json_value import Json
from holdfast.ports import SystemClock, boot_ns

SUFFIX = ".evt"
RECORD_MAX = 2 * 1024 * 1024

_NAME = re.compile(r"([0-9a-z]{1,16})-(\d{20})-(\d+)-([0-9a-f]{8})\.evt")


class SpoolPosition(NamedTuple):
    """The position of a record in the order of the spool."""

    boot: str
    since_boot_ns: int
    name: str


def write_event(folder: Path, event: NewEvent, id: str) -> Path:
    """Write an event into the spool. It is durable when this returns."""
    header = {
        "v": 1,
        "kind": "event",
        "id": id,
        "type": event.type,
        "source": event.source,
        "stream": event.stream,
        "timestamp": event.timestamp,
        "properties": json.loads(event.properties),
        "dedup_key": event.dedup_key,
        "to": event.to,
        "accepted_at": time.time_ns() // 1_000_000,
    }
    return write_record(folder, header, event.payload)


def write_record(folder: Path, header: dict[str, Json], body: bytes) -> Path:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    boot = SystemClock().boot_id[:16].lower()
    name = f"{boot}-{boot_ns():020d}-{os.getpid()}-{os.urandom(4).hex()}{SUFFIX}"
    unfinished = folder / f".{name}"
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    try:
        try:
            data = memoryview(json.dumps(header, ensure_ascii=True).encode() + b"\n" + body)
            while data:
                data = data[os.write(descriptor, data) :]
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.rename(unfinished, folder / name)
    except BaseException:  # not accepted: an unfinished file must not use up disk space
        unfinished.unlink(missing_ok=True)
        raise
    sync_folder(folder)
    return folder / name


def position_of(name: str) -> SpoolPosition | None:
    """The position of a record by its file name; None for other files."""
    match = _NAME.fullmatch(name)
    return None if match is None else SpoolPosition(match[1], int(match[2]), name)


def read_record(path: Path) -> tuple[dict[str, Json], bytes]:
    """The header and the payload bytes of a record. `BadInput` if it is damaged."""
    raw = read_raw(path, RECORD_MAX + 1)
    if len(raw) > RECORD_MAX:
        raise BadInput(f"the spool record is larger than {RECORD_MAX:,} bytes")
    line, newline, body = raw.partition(b"\n")
    try:
        header = json.loads(line) if newline else None
    except (ValueError, RecursionError):
        header = None
    if not isinstance(header, dict) or header.get("v") != 1 or not isinstance(header.get("kind"), str):
        raise BadInput("the spool record has no readable header")
    return header, body


def read_raw(path: Path, limit: int) -> bytes:
    """The first bytes of a file in the spool. Links are not followed, and a pipe does not block."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise BadInput("the spool record is not a file")
        with open(descriptor, "rb", closefd=False) as file:
            return file.read(limit)
    finally:
        os.close(descriptor)


def notify_daemon(path: Path) -> None:
    """Wake a listening daemon to import the spool now. Without this it polls once a second."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.setblocking(False)
            sender.sendto(b"spool", str(path))
    except OSError:
        pass


def sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
