"""The store on SQLite: the roles, wired to one writer and one reader."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

from holdfast.domain.errors import StoreError, StoreFailed
from holdfast.domain.event import iso_time
from holdfast.ports import (
    Chance,
    Clock,
    Executor,
    Inline,
    Probe,
    SystemChance,
    SystemClock,
    Threads,
    no_probe,
)
from holdfast.store.file_system import refuse_network
from holdfast.store.roles.store import Feature
from holdfast.store.sqlite.archives import SqliteArchives
from holdfast.store.sqlite.blobs import SqliteBlobs
from holdfast.store.sqlite.bookmarks import SqliteBookmarks
from holdfast.store.sqlite.connection import ApswConnection, Connection, StdlibConnection, tune
from holdfast.store.sqlite.cursors import SqliteCursors
from holdfast.store.sqlite.deliveries import SqliteDeliveries
from holdfast.store.sqlite.disk import Disk, DiskSpace, IntakeContracts, IntakeEvents
from holdfast.store.sqlite.feed import SqliteFeed
from holdfast.store.sqlite.fork_guard import mark_closed, mark_open
from holdfast.store.sqlite.gates import SqliteGates
from holdfast.store.sqlite.history import SqliteHistory
from holdfast.store.sqlite.keeper import Keeper
from holdfast.store.sqlite.log import Log
from holdfast.store.sqlite.maintenance import WAL_MAX_BYTES, Inspector, SqliteMaintenance
from holdfast.store.sqlite.migrate import check_version, kind_of, migrate, refuse_moved, require
from holdfast.store.sqlite.operator import SqliteOperator
from holdfast.store.sqlite.owners import SqliteOwners
from holdfast.store.sqlite.queue_admin import SqliteQueueAdmin
from holdfast.store.sqlite.reader import Reader
from holdfast.store.sqlite.readers import SqliteReaders
from holdfast.store.sqlite.ready_queue import SqliteReadyQueue
from holdfast.store.sqlite.receipts import SqliteReceipts
from holdfast.store.sqlite.routing import SqliteRouting
from holdfast.store.sqlite.sessions import SqliteSessions
from holdfast.store.sqlite.tokens import SqliteTokens
from holdfast.store.sqlite.writer import Writer
from holdfast.version import __version__

DRIVERS: dict[str, Callable[..., Connection]] = {"apsw": ApswConnection, "sqlite3": StdlibConnection}


class SqliteStore:
    """Open with `SqliteStore.open`. `keep`: be the keeper; raises `KeeperHeld` if another process is."""

    def __init__(
        self,
        path: Path,
        driver: str,
        keeper: Keeper | None,
        clock: Clock,
        chance: Chance,
        executor: Callable[[str], Executor],
        probe: Probe,
        disk: Disk,
    ) -> None:
        make = DRIVERS[driver]
        self.path, self.url, self._keeper, self._disk = path, f"sqlite:///{path}", keeper, disk
        self._listeners: list[Callable[[str], None]] = []
        write, read, upkeep = make(path), make(path), make(path)
        for connection in (write, read, upkeep):
            tune(connection)
        write.rows(f"PRAGMA journal_size_limit = {WAL_MAX_BYTES}")  # an old SQLite's log is never truncated
        require(write)
        own = kind_of(write) == "own"
        self.features = frozenset(
            {Feature.ONE_KEEPER, Feature.BACKUP} | ({Feature.COMPATIBILITY_VIEWS} if own else set())
        )
        self._log = Log(path.with_name(path.name + "-wal"), lambda: not disk.is_low)
        if keeper is None:
            self._log.close()
        self._failure_listeners: list[Callable[[StoreFailed], None]] = []
        self._writer = Writer(write, executor("writer"), probe, disk.ran_out, self._log.extend, self._failed)
        self._reader = Reader(read, executor("reader"), self._writer.fail)
        self._maintenance_executor, self._maintenance_connection = executor("maintenance"), upkeep
        writer, reader, changed = self._writer, self._reader, self._changed
        self.events = IntakeEvents(writer, reader, clock, chance, changed)
        self.contracts = IntakeContracts(writer, reader, clock, changed)
        self.events.disk = self.contracts.disk = disk
        ready = SqliteReadyQueue(clock)
        self.routing = SqliteRouting(writer, reader, ready, clock, changed)
        self.deliveries = SqliteDeliveries(writer, reader, ready, clock, chance, changed)
        self.sessions, self.blobs = SqliteSessions(writer, reader, clock), SqliteBlobs(writer, reader, clock)
        self.operator = SqliteOperator(writer, reader, ready, clock, changed)
        self.receipts, self.feed = SqliteReceipts(writer, reader, clock, disk.admit), SqliteFeed(reader)
        self.cursors, self.gates = SqliteCursors(writer, reader, clock), SqliteGates(writer, reader, clock)
        self.readers = SqliteReaders(writer, reader, clock, chance, changed)
        self.bookmarks, self.archives = SqliteBookmarks(writer, reader, clock), SqliteArchives(writer, reader, clock)
        self.owners = SqliteOwners(writer, reader, ready, clock, keeper is not None)
        self.queue_admin = SqliteQueueAdmin(reader, ready)
        self.tokens, self.history = SqliteTokens(writer, reader, clock), SqliteHistory(writer, reader)
        self._inspector = Inspector(lambda: make(path), executor("check"))
        self.maintenance = SqliteMaintenance(
            writer, reader, upkeep, self._maintenance_executor, clock, path, disk, self._inspector
        )

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        driver: str = "apsw",
        keep: bool = False,
        own: bool = True,
        create: bool = True,
        what: str = "holdfast",
        clock: Clock | None = None,
        chance: Chance | None = None,
        executor: Callable[[str], Executor] | None = None,
        probe: Probe = no_probe,
        disk_space: DiskSpace | None = None,
    ) -> SqliteStore:
        """Open a file, creating and migrating it where needed. With `keep`, the keeper's lock is taken first."""
        clock = clock or SystemClock()
        _check_place(path, create)
        mark_open(path)
        keeper = None
        try:
            keeper = _keeper(path, {"what": what, "since": iso_time(clock.now_ms())}) if keep else None
            disk = Disk(path, clock, keep, disk_space or DiskSpace())  # first: on a full disk this frees the ballast
            prepare_file(path, driver, own=own, create=create, keep=keep)
            return cls(path, driver, keeper, clock, chance or SystemChance(), executor or Threads, probe, disk)
        except BaseException:
            if keeper is not None:
                keeper.release()
            mark_closed(path)
            raise

    def on_change(self, listener: Callable[[str], None]) -> None:
        self._listeners.append(listener)

    def on_failure(self, listener: Callable[[StoreFailed], None]) -> None:
        self._failure_listeners.append(listener)

    def _failed(self, error: StoreFailed) -> None:
        for listener in self._failure_listeners:
            listener(error)

    def _changed(self, topic: str) -> None:
        for listener in self._listeners:
            listener(topic)

    async def close(self) -> None:
        await self._writer.close()
        self._log.close()
        self._reader.close()
        self._inspector.close()
        self._maintenance_executor.close()
        self._maintenance_connection.close()
        if self._keeper is not None:
            self._disk.close()
            self._keeper.release()
        mark_closed(self.path)


def prepare_file(path: Path, driver: str, *, own: bool, create: bool, keep: bool = False) -> int:
    """With `create`, make the file (mode 600) and update its schema. Returns the version found before.

    `keep`: it is to be worked on, so one that was moved elsewhere is refused.
    """
    if not path.exists():
        if not create:
            raise StoreError(f"there is no database at {path}; run: holdfast db migrate --store sqlite:///{path}")
        _create(path)
    connection = DRIVERS[driver](path)
    try:
        tune(connection)
        if not create:  # a user of the store must not migrate it while others work with it
            return check_version(connection)
        found = migrate(connection, __version__, own=own)
        if keep:
            refuse_moved(connection)
        return found
    finally:
        connection.close()


def _create(path: Path) -> None:
    try:
        os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW, 0o600))
    except FileNotFoundError:
        raise StoreError(f"the folder {path.parent} does not exist; create it, or choose another store") from None
    except OSError as error:
        raise StoreError(
            f"{path} cannot be created ({error.strerror}); make its folder writable, or choose another store"
        ) from error


def inline_executor(name: str) -> Executor:
    """For tests and simulation: no threads."""
    return Inline()


def _keeper(path: Path, facts: dict[str, str]) -> Keeper:
    try:
        return Keeper(path, facts)
    except OSError as error:
        raise StoreError(
            f"{path.parent} cannot be written ({error.strerror}), and the keeper must write to it; "
            "make the folder writable, or choose another store"
        ) from error


def _check_place(path: Path, create: bool) -> None:
    folder = path.parent
    if not folder.is_dir():
        raise StoreError(f"the folder {folder} does not exist; create it, or choose another store")
    refuse_network(folder)
    if path.exists() and not stat.S_ISREG(path.stat().st_mode):
        raise StoreError(f"{path} is not a file")
