"""A SQLite VFS that records every write, truncate and sync, and fails operations on request.

It is a layer over the default VFS: operations that do not fail are carried out.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import apsw

from holdfast.store.sqlite.connection import ApswConnection
from holdfast.store.sqlite.store import DRIVERS

NO_SPACE = apsw.SQLITE_FULL
EIO_WRITE = apsw.SQLITE_IOERR_WRITE
EIO_SYNC = apsw.SQLITE_IOERR_FSYNC
EIO_READ = apsw.SQLITE_IOERR_READ


class Op(NamedTuple):
    """One disk operation. `file` is the suffix after the database's name: empty, -wal or -journal."""

    kind: str  # write, truncate, sync, delete
    file: str
    at: int = 0
    data: bytes = b""


@dataclass(slots=True)
class Fault:
    """Fail operations of a kind on a file: skip the first `skip`, then fail `times` of them (None: all)."""

    kind: str
    file: str
    code: int
    skip: int = 0
    times: int | None = None
    met: int = 0

    def applies_to(self, kind: str, file: str) -> bool:
        if (kind, file) != (self.kind, self.file):
            return False
        if self.skip > 0:
            self.skip -= 1
            return False
        if self.times is not None and self.met >= self.times:
            return False
        self.met += 1
        return True


class TestDisk:
    """Registers itself as the driver `name`: `SqliteStore.open(path, driver=name)` then writes through it.

    >>> with TestDisk("doc-disk") as disk:
    ...     disk.fault = Fault("sync", "-wal", EIO_SYNC)
    """

    __test__ = False  # not a pytest class

    def __init__(self, name: str, *, recording: bool = False, lying: bool = False) -> None:
        self.name, self.recording, self.lying = name, recording, lying
        self.ops: list[Op] = []
        self.fault: Fault | None = None
        self.read_only = False

    def __enter__(self) -> TestDisk:
        self._vfs = _Vfs(self)
        DRIVERS[self.name] = self._connect
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        del DRIVERS[self.name]
        self._vfs.unregister()

    def _connect(self, path: Path, readonly: bool = False) -> ApswConnection:
        return _Connection(path, self.name)

    def does(self, kind: str, path: str, at: int = 0, data: bytes = b"") -> None:
        """Called before an operation takes place."""
        file = ending(path)
        if self.fault is not None and self.fault.applies_to(kind, file):
            raise apsw.exception_for(self.fault.code)
        if self.recording and kind != "read" and not (self.lying and kind == "sync"):
            self.ops.append(Op(kind, file, at, data))


class _Connection(ApswConnection):
    def __init__(self, path: Path, vfs: str) -> None:
        self._apsw = apsw
        try:
            self._raw = apsw.Connection(str(path), vfs=vfs)
            self._raw.execute("PRAGMA trusted_schema = OFF")
        except apsw.Error as error:
            raise self._translate(error) from error


class _Vfs(apsw.VFS):
    def __init__(self, disk: TestDisk) -> None:
        self._disk = disk
        super().__init__(disk.name, "")

    def xOpen(self, name: Any, flags: list[int]) -> _File:  # noqa: N802 - SQLite's names
        if self._disk.read_only:
            flags[0] = flags[0] & ~(apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE) | apsw.SQLITE_OPEN_READONLY
        return _File(self._disk, name, flags)

    def xDelete(self, name: str, sync: bool) -> None:  # noqa: N802
        self._disk.does("delete", name)
        super().xDelete(name, sync)


class _File(apsw.VFSFile):
    def __init__(self, disk: TestDisk, name: Any, flags: list[int]) -> None:
        self._disk = disk
        self._path = name.filename() if isinstance(name, apsw.URIFilename) else str(name)
        super().__init__("", name, flags)

    def xRead(self, amount: int, offset: int) -> bytes:  # noqa: N802
        self._disk.does("read", self._path)
        return bytes(super().xRead(amount, offset))

    def xWrite(self, data: Any, offset: int) -> None:  # noqa: N802
        self._disk.does("write", self._path, offset, bytes(data))
        super().xWrite(data, offset)

    def xTruncate(self, size: int) -> None:  # noqa: N802
        self._disk.does("truncate", self._path, size)
        super().xTruncate(size)

    def xSync(self, flags: int) -> None:  # noqa: N802
        self._disk.does("sync", self._path)
        if not self._disk.recording:  # a recording models the disk, so the real sync is not needed
            super().xSync(flags)


def ending(path: str) -> str:
    """
    >>> ending("/srv/h.db-wal"), ending("/srv/h.db")
    ('-wal', '')
    """
    name = os.path.basename(path)
    return next((end for end in ("-wal", "-journal", "-shm") if name.endswith(end)), "")
