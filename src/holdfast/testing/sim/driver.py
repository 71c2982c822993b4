"""Drivers of the store for simulated processes: apsw, but without waiting for a disk that is not simulated anyway.

Most of what a short schedule costs is opening: SQLite reads the schema and compiles every statement anew for each
connection. So most schedules share one file that is emptied between them, and connections that are handed on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from typing import Any, Self

import apsw

from holdfast.store.sqlite.connection import ApswConnection, Row
from holdfast.store.sqlite.store import DRIVERS, prepare_file
from holdfast.testing.sim.loop import Crash

_TABLES = "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name"
_NUMBERS = count(1)
_WATCHED = frozenset({"holdfast_deliveries", "holdfast_ready"})


class Fuse:
    """Lit while a process opens its store: after so many statements the process is dead, and none comes through."""

    def __init__(self) -> None:
        self.left: int | None = None
        self.connections: list[SimConnection] = []

    def light(self, statements: int) -> None:
        self.left = statements

    def put_out(self) -> None:
        self.left = None
        self.connections.clear()

    def burn(self) -> None:
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                raise Crash("while it opened the store")


class SimConnection(ApswConnection):
    """A killed process loses no commit that the operating system has: only a power cut would need the fsync."""

    def __init__(self, fuse: Fuse, path: Path, readonly: bool = False) -> None:
        super().__init__(path, readonly)
        self._raw.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)  # or each bind may have its statement compiled anew
        self._lay(fuse)

    def _lay(self, fuse: Fuse) -> None:
        self._fuse = fuse
        if fuse.left is not None:
            fuse.connections.append(self)

    def rows(self, sql: str, params: Sequence[Any] = ()) -> list[Row]:
        self._fuse.burn()
        return super().rows(sql, params)

    def run(self, sql: str, params: Sequence[Any] = ()) -> int:
        self._fuse.burn()
        if sql.startswith("PRAGMA synchronous"):
            sql = "PRAGMA synchronous = OFF"
        return super().run(sql, params)

    def watch(self) -> None:
        """From now on, remember which deliveries this connection has touched, until `touched` is asked."""
        self._touched: set[int] = set()
        self._raw.set_update_hook(self._touch)

    def touched(self) -> list[int]:
        """Which deliveries it has touched since the last time; those of a lost transaction may be among them."""
        found = sorted(self._touched)
        self._touched.clear()
        return found

    def _touch(self, kind: int, database: str, table: str, row: int) -> None:
        if table in _WATCHED:
            self._touched.add(row)


class WarmConnection(SimConnection):
    """A connection of an earlier process, with what it had compiled. Its settings are those it was opened with."""

    def __init__(self, fuse: Fuse, raw: Any, give_back: Callable[[Any], None]) -> None:
        self._apsw, self._raw, self._give_back = apsw, raw, give_back
        self._open = True
        self._lay(fuse)

    def rows(self, sql: str, params: Sequence[Any] = ()) -> list[Row]:
        return [("wal",)] if sql == "PRAGMA journal_mode = WAL" else super().rows(sql, params)

    def run(self, sql: str, params: Sequence[Any] = ()) -> int:
        return 0 if sql.startswith("PRAGMA ") else super().run(sql, params)

    def close(self) -> None:
        """As if closed: an open transaction is lost."""
        if self._open:
            self._open = False
            self._raw.set_update_hook(None)
            if self._raw.in_transaction:
                self._raw.execute("ROLLBACK")
            self._give_back(self._raw)


class ColdFiles:
    """Any file, opened and closed as processes come and go. A context: meanwhile it is a driver of the store."""

    def __init__(self) -> None:
        self.driver, self.fuse = f"sim-cold-{next(_NUMBERS)}", Fuse()

    def __enter__(self) -> Self:
        DRIVERS[self.driver] = self.connect
        return self

    def __exit__(self, *exception: object) -> None:
        del DRIVERS[self.driver]

    def connect(self, path: Path, readonly: bool = False) -> SimConnection:
        return SimConnection(self.fuse, path, readonly)


class WarmFile(ColdFiles):
    """One file for many schedules, whose connections are handed on."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self._idle: list[Any] = []
        self._all: list[Any] = []

    def __enter__(self) -> Self:
        super().__enter__()
        prepare_file(self.path, self.driver, own=True, create=True)
        look = self.connect(self.path)
        self._first = {name: look.rows(f"SELECT * FROM {name}") for (name,) in look.rows(_TABLES)}
        look.close()
        return self

    def __exit__(self, *exception: object) -> None:
        super().__exit__(*exception)
        for raw in self._all:
            raw.close(True)

    def connect(self, path: Path, readonly: bool = False) -> SimConnection:
        if not self._idle:
            made = super().connect(path)
            for setting in ("journal_mode = WAL", "synchronous = OFF", "wal_autocheckpoint = 0", "temp_store = MEMORY"):
                made._raw.execute(f"PRAGMA {setting}")
            self._all.append(made._raw)
            self._idle.append(made._raw)
        return WarmConnection(self.fuse, self._idle.pop(), self._idle.append)

    def empty(self) -> None:
        """As it was when it was made. Nobody may be at work."""
        if len(self._idle) != len(self._all):
            raise RuntimeError(f"{len(self._all) - len(self._idle)} connections are still in use")
        with_all = self.connect(self.path)
        with_all.run("BEGIN IMMEDIATE")
        for name, rows in self._first.items():
            with_all.run(f"DELETE FROM {name}")
            if rows:
                with_all.many(f"INSERT INTO {name} VALUES ({', '.join('?' * len(rows[0]))})", rows)
        with_all.run("COMMIT")
        with_all.rows("PRAGMA wal_checkpoint(TRUNCATE)")
        with_all.close()
