"""Store drivers for simulated processes: apsw without fsync, since the disk is not simulated.

Opening is most of the cost of a short schedule: SQLite reads the schema and compiles every statement again for each
connection. So most schedules share one database, emptied between them, and its pooled connections.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from heapq import heappop, heappush
from itertools import count
from pathlib import Path
from typing import Any, Self

import apsw

from holdfast.proof.simulation.loop import Crash
from holdfast.store.sqlite.connection import ApswConnection, Row
from holdfast.store.sqlite.store import DRIVERS, prepare_file

_TABLES = "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name"
_NUMBERS = count(1)
_WATCHED = frozenset({"holdfast_deliveries", "holdfast_ready"})
_RESTLESS = frozenset({"holdfast_queues", "holdfast_meta"})
_SHORT_FIELDS = frozenset({"BEGIN", "BEGIN IMMEDIATE", "COMMIT", "ROLLBACK"})
"""Quick to compile: caching them would only evict others from apsw's statement cache."""
STATEMENTS_KEPT = 512


class CrashCountdown:
    """Crashes a process that opens its store, after a given number of statements."""

    def __init__(self) -> None:
        self.left: int | None = None
        self.connections: list[SimConnection] = []

    def start_counting(self, statements: int) -> None:
        self.left = statements

    def stop_counting(self) -> None:
        self.left = None
        self.connections.clear()

    def count_statement(self) -> None:
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                raise Crash("while opening the store")


class SimConnection(ApswConnection):
    """No fsync: a killed process loses no commit that the operating system has; only a power cut would."""

    def __init__(self, countdown: CrashCountdown, path: Path) -> None:
        self._apsw, self._raw = apsw, _open(str(path))
        self._attach(countdown)

    def _attach(self, countdown: CrashCountdown) -> None:
        self._countdown = countdown
        if countdown.left is not None:
            countdown.connections.append(self)

    def rows(self, sql: str, params: Sequence[Any] = ()) -> list[Row]:
        self._countdown.count_statement()
        return super().rows(sql, params)

    def run(self, sql: str, params: Sequence[Any] = ()) -> int:
        self._countdown.count_statement()
        if sql.startswith("PRAGMA synchronous"):
            sql = "PRAGMA synchronous = OFF"
        return super().run(sql, params)

    def watch(self, moved: Callable[[], None]) -> None:
        """From now on, record which deliveries this connection changes, for `touched`.

        `moved` is called for every other changed row, except in tables that change while nothing happens.
        """
        self._touched: set[int] = set()
        self._moved = moved
        self._raw.set_update_hook(self._touch)

    def touched(self) -> list[int]:
        """The deliveries changed since the last call, possibly including those of a rolled-back transaction."""
        found = sorted(self._touched)
        self._touched.clear()
        return found

    def _touch(self, kind: int, database: str, table: str, row: int) -> None:
        if table in _WATCHED:
            self._touched.add(row)
        elif table not in _RESTLESS:
            self._moved()


class WarmConnection(SimConnection):
    """A pooled connection of an earlier process, with its compiled statements and its original settings."""

    def __init__(self, countdown: CrashCountdown, raw: Any, give_back: Callable[[], None]) -> None:
        self._apsw, self._raw, self._give_back = apsw, raw, give_back
        self._open = True
        self._attach(countdown)

    def rows(self, sql: str, params: Sequence[Any] = ()) -> list[Row]:
        self._countdown.count_statement()
        if sql == "PRAGMA journal_mode = WAL":
            return [("wal",)]
        try:
            return list(self._raw.execute(sql, params))
        except apsw.Error as error:
            raise self._translate(error) from error

    def run(self, sql: str, params: Sequence[Any] = ()) -> int:
        self._countdown.count_statement()
        if sql.startswith("PRAGMA "):
            return 0
        try:
            self._raw.execute(sql, params, can_cache=sql not in _SHORT_FIELDS)
        except apsw.Error as error:
            raise self._translate(error) from error
        return int(self._raw.changes())

    def set_busy_timeout(self, ms: int) -> None:
        """No effect: a transaction always ends before another process runs, so nothing ever waits."""

    def close(self) -> None:
        """Return the connection to the pool; an open transaction is rolled back."""
        if self._open:
            self._open = False
            self._raw.set_update_hook(None)
            if self._raw.in_transaction:
                self._raw.execute("ROLLBACK")
            self._give_back()


class ColdFiles:
    """Opens and closes real files for each process. A context manager that registers itself as a store driver."""

    def __init__(self) -> None:
        self.driver, self.countdown = f"sim-cold-{next(_NUMBERS)}", CrashCountdown()

    def __enter__(self) -> Self:
        DRIVERS[self.driver] = self.connect
        return self

    def __exit__(self, *exception: object) -> None:
        del DRIVERS[self.driver]

    def connect(self, path: Path, readonly: bool = False) -> SimConnection:
        return SimConnection(self.countdown, path)


class WarmFile(ColdFiles):
    """One in-memory database for many schedules, with pooled connections. An empty file stands at its path.

    It has a rollback journal and no write-ahead log. That makes no difference to a schedule, in which no two
    transactions are ever open at once; a test checks that the same seeds take the same course on a real file.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self._address = f"file:/{self.driver}-{os.getpid()}?vfs=memdb"
        self._all: list[apsw.Connection] = []
        self._idle: list[int] = []

    def __enter__(self) -> Self:
        super().__enter__()
        self._admin = _open(self._address, *_SETTINGS)
        prepare_file(self.path, self.driver, own=True, create=True)
        tables = [name for (name,) in self._admin.execute(_TABLES)]
        self._first = {name: list(self._admin.execute(f"SELECT * FROM {name}")) for name in tables}
        return self

    def __exit__(self, *exception: object) -> None:
        super().__exit__(*exception)
        for raw in (*self._all, self._admin):
            raw.close(True)

    def connect(self, path: Path, readonly: bool = False) -> SimConnection:
        """The lowest free connection: each mostly repeats its earlier role, and has its statements compiled."""
        if not self._idle:
            self._idle.append(len(self._all))
            self._all.append(_open(self._address, *_SETTINGS))
        number = heappop(self._idle)
        return WarmConnection(self.countdown, self._all[number], partial(heappush, self._idle, number))

    def empty(self) -> None:
        """Reset the database to its first state. No connection may be in use."""
        if len(self._idle) != len(self._all):
            raise RuntimeError(f"{len(self._all) - len(self._idle)} connections are still in use")
        execute = self._admin.execute
        execute("BEGIN IMMEDIATE")
        for name in self._first:
            execute(f"DELETE FROM {name}")
        for name, rows in self._first.items():  # rows last: a trigger may have counted the removed ones
            execute(f"DELETE FROM {name}")
            for row in rows:
                execute(f"INSERT INTO {name} VALUES ({', '.join('?' * len(row))})", row)
        execute("COMMIT")


_SETTINGS = ("journal_mode = MEMORY", "synchronous = OFF", "temp_store = MEMORY")


def _open(address: str, *settings: str) -> apsw.Connection:
    flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE | apsw.SQLITE_OPEN_URI
    raw = apsw.Connection(address, flags=flags, statementcachesize=STATEMENTS_KEPT)
    raw.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)  # otherwise a bind may recompile its statement
    for setting in ("trusted_schema = OFF", *settings):
        raw.execute(f"PRAGMA {setting}")
    return raw
