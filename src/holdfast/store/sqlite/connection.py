"""One connection interface with two drivers: `apsw` in the daemon, the standard `sqlite3` inside an application.

Never two SQLite libraries on one file in one process: closing a descriptor in one would drop the POSIX locks of
the other. Which driver a process uses is therefore decided once, in `store.open`.
"""

from __future__ import annotations

import errno
import os
import sqlite3
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol

from holdfast.domain.errors import HoldfastError, StoreBusy, StoreError, StoreFailed, StoreFull, StoreMissing
from holdfast.store.door_errors import door_error_in

BUSY_TIMEOUT_MS = 5000
PROBE_BYTES = 64 * 1024

Row = tuple[Any, ...]
Params = Sequence[Any]

_BUSY, _LOCKED, _READONLY, _IOERR, _CORRUPT, _FULL, _CANTOPEN, _CONSTRAINT, _NOTADB = (
    5,
    6,
    8,
    10,
    11,
    13,
    14,
    19,
    26,
)


_IOERR_WRITE, _IOERR_SHMSIZE = _IOERR | 3 << 8, _IOERR | 19 << 8
_DISK_FULL = (errno.ENOSPC, errno.EDQUOT)


class Connection(Protocol):
    """What the store needs of a driver. Statements only; transactions belong to the writer."""

    def rows(self, sql: str, params: Params = ()) -> list[Row]: ...
    def each(self, sql: str, params: Params, visit: Callable[[Row], bool]) -> None:
        """Call `visit` with one row after another, each read on demand, until it returns False."""

    def run(self, sql: str, params: Params = ()) -> int: ...
    def many(self, sql: str, rows: Iterable[Params]) -> None: ...
    def total_changes(self) -> int:
        """How many rows this connection has changed."""

    def set_busy_timeout(self, ms: int) -> None: ...
    def interrupt(self) -> None: ...
    def close(self) -> None: ...


class ApswConnection:
    """The daemon's driver: it brings its own SQLite, in which the WAL-reset bug is fixed."""

    def __init__(self, path: Path, readonly: bool = False) -> None:
        import apsw

        self._apsw = apsw
        flags = apsw.SQLITE_OPEN_READONLY if readonly else apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
        try:
            self._raw = apsw.Connection(str(path), flags=flags)
            # Plans do not depend on bound values: a cached statement is not recompiled at every use.
            self._raw.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
            self._raw.execute("PRAGMA trusted_schema = OFF")  # older libraries do not trust their own JSON functions
        except apsw.Error as error:
            raise self._translate(error) from error

    def rows(self, sql: str, params: Params = ()) -> list[Row]:
        try:
            return list(self._raw.execute(sql, params))
        except self._apsw.Error as error:
            raise self._translate(error) from error

    def each(self, sql: str, params: Params, visit: Callable[[Row], bool]) -> None:
        cursor = self._raw.cursor()
        try:
            for row in cursor.execute(sql, params):
                if not visit(row):
                    return
        except self._apsw.Error as error:
            raise self._translate(error) from error
        finally:
            cursor.close(True)  # a statement that was not read to its end would hold the snapshot

    def run(self, sql: str, params: Params = ()) -> int:
        try:
            self._raw.execute(sql, params)
        except self._apsw.Error as error:
            raise self._translate(error) from error
        return int(self._raw.changes())

    def many(self, sql: str, rows: Iterable[Params]) -> None:
        try:
            self._raw.executemany(sql, rows)
        except self._apsw.Error as error:
            raise self._translate(error) from error

    def total_changes(self) -> int:
        return int(self._raw.total_changes())

    def set_busy_timeout(self, ms: int) -> None:
        self._raw.set_busy_timeout(ms)

    def interrupt(self) -> None:
        self._raw.interrupt()

    def close(self) -> None:
        self._raw.close(True)

    def _translate(self, error: Exception) -> HoldfastError:
        code = getattr(error, "extendedresult", 0) or getattr(error, "result", 0)
        if code == _IOERR_WRITE and hasattr(self, "_raw") and self._raw.system_errno in _DISK_FULL:
            code = _FULL  # SQLite has a code for a full disk, but none for an exhausted quota
        return translate(code, str(error))


class StdlibConnection:
    """The application's driver, with the SQLite its Python was built with."""

    def __init__(self, path: Path, readonly: bool = False) -> None:
        self._folder = path.absolute().parent
        uri = f"{path.absolute().as_uri()}?mode={'ro' if readonly else 'rwc'}"
        try:
            self._raw = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False)
        except sqlite3.Error as error:
            raise self._translate(error) from error

    def rows(self, sql: str, params: Params = ()) -> list[Row]:
        try:
            return self._raw.execute(sql, params).fetchall()
        except sqlite3.Error as error:
            raise self._translate(error) from error

    def each(self, sql: str, params: Params, visit: Callable[[Row], bool]) -> None:
        cursor = self._raw.cursor()
        try:
            for row in cursor.execute(sql, params):
                if not visit(row):
                    return
        except sqlite3.Error as error:
            raise self._translate(error) from error
        finally:
            cursor.close()

    def run(self, sql: str, params: Params = ()) -> int:
        try:
            cursor = self._raw.execute(sql, params)
            cursor.fetchall()
            return cursor.rowcount
        except sqlite3.Error as error:
            raise self._translate(error) from error

    def many(self, sql: str, rows: Iterable[Params]) -> None:
        try:
            self._raw.executemany(sql, rows)
        except sqlite3.Error as error:
            raise self._translate(error) from error

    def total_changes(self) -> int:
        return self._raw.total_changes

    def set_busy_timeout(self, ms: int) -> None:
        self._raw.execute(f"PRAGMA busy_timeout = {int(ms)}")

    def interrupt(self) -> None:
        self._raw.interrupt()

    def close(self) -> None:
        self._raw.close()

    def _translate(self, error: sqlite3.Error) -> HoldfastError:
        """The standard library hides errno: whether the disk is full has to be found out by a write."""
        if getattr(error, "sqlite_errorcode", 0) == _IOERR_WRITE and not _has_space(self._folder):
            return translate(_FULL, str(error))
        return translate_stdlib(error)


def _has_space(folder: Path) -> bool:
    """Whether `PROBE_BYTES` can be written there. A failure for another reason counts as enough space."""
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(bytes(PROBE_BYTES))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        return error.errno not in _DISK_FULL
    return True


def translate_stdlib(error: sqlite3.Error) -> HoldfastError:
    code = getattr(error, "sqlite_errorcode", 0) or (_CONSTRAINT if isinstance(error, sqlite3.IntegrityError) else 0)
    return translate(code, str(error))


def translate(code: int, text: str) -> HoldfastError:
    """Translate an SQLite error to a Holdfast error. No other function does this."""
    primary = code & 0xFF
    if primary == _CONSTRAINT and (refused := door_error_in(text)) is not None:
        return refused
    if primary in (_BUSY, _LOCKED):
        return StoreBusy("the database is locked by another writer; Holdfast retries, nothing is lost")
    if primary == _FULL or code == _IOERR_SHMSIZE:  # the -shm file could not grow: nothing was written
        return StoreFull("the disk is full: nothing can be accepted until space is freed")
    if primary == _READONLY:
        return StoreFull("the database cannot be written: the file or its file system is read-only")
    if primary in (_CORRUPT, _NOTADB):
        return StoreFailed(f"the database file is damaged ({text}); restore a backup with: holdfast db restore")
    if primary == _IOERR:
        return StoreFailed(f"the disk failed ({text}); the daemon stops so that nothing is built on lost writes")
    if primary == _CANTOPEN:
        return StoreError(f"the database cannot be opened ({text}); check that its folder exists and is writable")
    if "no such table: holdfast_" in text or "no such table: main.holdfast_" in text:
        return StoreMissing("this database holds no Holdfast tables; run: holdfast db migrate --store sqlite:///PATH")
    return StoreError(f"SQLite: {text}")


def tune(connection: Connection, *, synchronous: str = "FULL") -> None:
    """Set the pragmas that durability needs; the busy timeout first, since the others may have to wait for a lock."""
    connection.set_busy_timeout(BUSY_TIMEOUT_MS)
    mode = connection.rows("PRAGMA journal_mode = WAL")[0][0]
    if str(mode).lower() != "wal":
        raise StoreError(f"SQLite cannot use its write-ahead log here (journal mode {mode}); use a local disk")
    connection.run(f"PRAGMA synchronous = {synchronous}")
    connection.run("PRAGMA wal_autocheckpoint = 0")
    connection.run("PRAGMA temp_store = MEMORY")
    connection.run("PRAGMA cache_size = -32000")
    connection.run("PRAGMA fullfsync = 1")
