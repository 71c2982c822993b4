"""Maintenance of the file: retention in batches, checkpoints by the keeper alone, backup, checks."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

from holdfast.domain.errors import Conflict, StoreFailed, StoreFull
from holdfast.domain.receipt import id_ranges
from holdfast.ports import Clock, Executor
from holdfast.store.roles.maintenance import PRUNED, Retention, StoreSizes
from holdfast.store.roles.owners import Actor
from holdfast.store.rows import front_only
from holdfast.store.sqlite.clock_steps import ClockStepWatch
from holdfast.store.sqlite.connection import BUSY_TIMEOUT_MS, Connection, Row
from holdfast.store.sqlite.disk import MIB, Disk
from holdfast.store.sqlite.reader import Reader
from holdfast.store.sqlite.receipts import write_action
from holdfast.store.sqlite.statements import sql
from holdfast.store.sqlite.writer import Writer

BLOBS = 20  # how many files one transaction removes
SPAN = 2000
LOOK_EVERY_MS = 500
WAL_MAX_BYTES = 64 * MIB
RESTART_FRAMES = 2_000
RESTART_TIMEOUT_MS = 50
_CHECKPOINT = "PRAGMA wal_checkpoint(PASSIVE)"
_RESTART = "PRAGMA wal_checkpoint(RESTART)"
_TRUNCATE = "PRAGMA wal_checkpoint(TRUNCATE)"


class Inspector:
    """Checks the whole file, which takes long, so on a connection and in a thread of its own.

    On the checkpointer's connection it would delay the checkpoint, and with an old SQLite every writer too.
    """

    def __init__(self, open: Callable[[], Connection], executor: Executor) -> None:
        self._open, self._executor = open, executor
        self._connection: Connection | None = None

    async def check(self) -> list[Row]:
        return await self._executor.submit(self._check)

    def _check(self) -> list[Row]:
        self._connection = connection = self._open()
        try:
            connection.set_busy_timeout(BUSY_TIMEOUT_MS)
            return connection.rows("PRAGMA quick_check(20)")
        finally:
            self._connection = None
            connection.close()

    def close(self) -> None:
        """Interrupt a check that is in progress."""
        if (connection := self._connection) is not None:
            connection.interrupt()
        self._executor.close()


class SqliteMaintenance:
    def __init__(
        self,
        writer: Writer,
        reader: Reader,
        checkpointer: Connection,
        executor: Executor,
        clock: Clock,
        path: Path,
        disk: Disk,
        inspector: Inspector,
    ) -> None:
        self._inspector = inspector
        self._writer, self._reader, self._clock, self._path, self._disk = writer, reader, clock, path, disk
        self._wal = path.with_name(path.name + "-wal")
        self._clock_steps = ClockStepWatch(writer, clock)
        self.wal_max_bytes = WAL_MAX_BYTES
        self._checkpointer, self._executor = checkpointer, executor
        self._seen: int | None = None
        self._looked_ms = 0
        self._inodes: dict[Path, int] = {path: path.stat().st_ino}
        self._has_wal_reset_fix = has_wal_reset_fix(checkpointer.rows("SELECT sqlite_version()")[0][0])

    async def prune(self, retention: Retention, limit: int, by: Actor) -> dict[str, int]:
        """Remove expired rows, in batches short enough not to block others; at most `limit` of each kind."""
        now_ms = self._clock.now_ms()
        first_d, last_d, first_e, last_e = (await self._reader.run(lambda c: c.rows(sql.prune_span)))[0]
        counts = dict.fromkeys(PRUNED, 0)
        for start in range(first_d - 1, last_d, SPAN):
            if left := limit - counts["deliveries"]:
                work = partial(_prune_deliveries, start, retention, now_ms, left, by)
                counts["deliveries"] += await self._remove(work)
        for start in range(first_e - 1, last_e, SPAN):
            if left := limit - counts["events"]:
                counts["events"] += await self._remove(partial(_prune_events, start, retention, now_ms, left))
        while left := limit - counts["dedup_keys"]:
            removed = await self._remove(partial(_prune_dedup, now_ms - retention.dedup_ms, min(left, SPAN)))
            counts["dedup_keys"] += removed
            if removed < SPAN:
                break
        cutoff, some = now_ms - retention.dedup_ms, min(limit, SPAN)
        counts["inbox"] = await self._remove(lambda c: c.run(sql.prune_inbox, (cutoff, some)))
        counts["lanes"] = await self._remove(lambda c: c.run(sql.prune_lanes, (some,)))
        counts["sessions"] = await self._remove(partial(_prune_sessions, now_ms - retention.sessions_ms, some))
        counts["streams"] = await self._remove(partial(_prune_streams, retention, now_ms, some))
        unused = now_ms - retention.dead_ms
        counts["blobs"] = await self._remove(lambda c: c.run(sql.prune_blobs, (unused, min(some, BLOBS))))
        return counts

    async def _remove(self, work: Callable[[Connection], int]) -> int:
        return await self._writer.run(work, heavy=True)

    async def backup(self, path: Path) -> None:
        """Make a complete copy while the store is in use. The file appears only when the copy is complete."""
        await self._executor.submit(partial(_copy, self._checkpointer, path))

    async def checkpoint(self) -> bool:
        """Move the log into the file. Only the keeper does this, and with an old SQLite never during a write.

        SQLite restarts the log only if all of it was moved when a transaction begins. Under a steady load there are
        always newer commits, so a long log is moved once more while the writer is paused.
        """
        try:
            was_long = False
            if self._has_wal_reset_fix:
                was_long = await self._executor.submit(self._move_log) >= RESTART_FRAMES
                if was_long:
                    await self._writer.alone(self._restart_log)
            else:  # the write lock keeps all writers out
                work = lambda connection: self._checkpointer.rows(_CHECKPOINT)  # noqa: E731
                await self._writer.run(work, durable=False, heavy=True)
        except StoreFailed as error:
            self._writer.fail(error)
            raise
        except StoreFull:
            self._disk.ran_out()
            raise
        await self._clock_steps.tick()
        return was_long

    def _move_log(self) -> int:
        """Checkpoint. Returns the log's length in pages; a large file counts as long even if little of it is used."""
        ((_, frames, _),) = self._checkpointer.rows(_CHECKPOINT)
        return RESTART_FRAMES if self.wal_bytes() > self.wal_max_bytes else int(frames)

    def _restart_log(self) -> None:
        """Wait at most `RESTART_TIMEOUT_MS` for readers that still use the log, since the writer waits too."""
        self._checkpointer.set_busy_timeout(RESTART_TIMEOUT_MS)
        try:
            self._checkpointer.rows(_TRUNCATE if self.wal_bytes() > self.wal_max_bytes else _RESTART)
        finally:
            self._checkpointer.set_busy_timeout(BUSY_TIMEOUT_MS)

    def wal_bytes(self) -> int:
        try:
            return self._wal.stat().st_size
        except FileNotFoundError:
            return 0

    def gauges(self) -> dict[str, int | bool | None]:
        """Values to monitor: the size of the log, free disk space, whether intake is open."""
        return {"wal_bytes": self.wal_bytes(), **self._disk.gauges()}

    async def about(self) -> str:
        ((version,),) = await self._executor.submit(lambda: self._checkpointer.rows("SELECT sqlite_version()"))
        return f"SQLite {version}"

    async def check(self) -> list[str]:
        """The problems that SQLite's own check finds in the file."""
        try:
            rows = await self._inspector.check()
        except StoreFailed as error:  # too damaged even for the check
            return [error.message]
        return [] if rows == [("ok",)] else [str(row[0]) for row in rows]

    async def replication(self) -> None:
        return None

    async def sizes(self) -> StoreSizes:
        try:
            free = shutil.disk_usage(self._path.parent).free
            log = self._wal.stat().st_size if self._wal.exists() else 0
            return StoreSizes(self._path.stat().st_size, log, free)
        except OSError:
            return StoreSizes(None)

    def refusal(self) -> str | None:
        return self._disk.refusal()

    def notes(self) -> list[str]:
        return []

    def watched_files(self) -> list[Path]:
        return [self._wal]

    def commits(self) -> int:
        return self._writer.commits

    def changed_elsewhere(self) -> bool:
        """Whether another connection committed since the last call. Raises if the file was replaced while in use."""
        now_ms = self._clock.boot_ms()
        if now_ms - self._looked_ms >= LOOK_EVERY_MS:
            self._looked_ms = now_ms
            self.check_file()
            self._disk.look()
        rows = self._writer.peek(lambda connection: connection.rows("PRAGMA data_version"))
        if rows is None:
            return False
        before, self._seen = self._seen, int(rows[0][0])
        return before is not None and before != self._seen

    def check_file(self) -> None:
        """Raises if the file, its log or its index was replaced: further writes would be lost."""
        for path in (self._path, self._wal, self._path.with_name(self._path.name + "-shm")):
            try:
                inode = path.stat().st_ino
            except FileNotFoundError:
                inode = -1
            known = self._inodes.get(path, inode)
            if inode != known:
                error = StoreFailed(f"{path} was moved or replaced while in use; stop, put it back, start again")
                self._writer.fail(error)
                raise error
            if inode != -1:
                self._inodes[path] = inode


def _prune_deliveries(
    start: int, retention: Retention, now_ms: int, limit: int, by: Actor, connection: Connection
) -> int:
    cutoffs = (now_ms - retention.delivered_ms, now_ms - retention.inbound_ms, now_ms - retention.dead_ms)
    rows = connection.rows(sql.prune_deliveries, (start, SPAN, *cutoffs, limit))
    connection.many(sql.prune_attempts, rows)
    connection.many(sql.prune_delivery, rows)
    if rows:
        write_action(connection, by, now_ms, "prune", pruned_deliveries=id_ranges(id for (id,) in rows))
    return len(rows)


def _prune_events(start: int, retention: Retention, now_ms: int, limit: int, connection: Connection) -> int:
    cutoff_ms = now_ms - retention.delivered_ms
    found = connection.rows(sql.prune_events, (start, SPAN, cutoff_ms, now_ms, limit, int(retention.archive)))
    streams = {stream for _, stream, _ in found if stream is not None}
    rows = front_only(found, {stream: connection.rows(sql.stream_first, (stream,))[0][0] for stream in streams})
    if not rows:
        return 0
    unmatched = sum(connection.run(sql.prune_unmatched, (n,)) for n, _, _ in rows)
    connection.many(sql.prune_event, [(n,) for n, _, _ in rows])
    connection.many(sql.stream_emptied, [(now_ms, stream) for stream in {stream for _, stream, _ in rows if stream}])
    connection.run(sql.counts_add, (-len(rows), -unmatched))
    return len(rows)


def _prune_sessions(before_ms: int, limit: int, connection: Connection) -> int:
    rows = connection.rows(sql.sessions_old, (before_ms, limit))
    connection.many(sql.prune_sessions, rows)
    connection.many(sql.prune_bookmarks, rows)
    connection.many(sql.prune_bindings, rows)
    return len(rows)


def _prune_streams(retention: Retention, now_ms: int, limit: int, connection: Connection) -> int:
    """Streams that were empty for long enough. A new one of the same name starts at 1, so nothing may refer to it."""
    before_ms = now_ms - retention.streams_kept_ms
    ids = [id for (id,) in connection.rows(sql.streams_emptied, (before_ms, limit))]
    connection.many(sql.streams_refilled, [(id,) for id in ids])
    connection.many(sql.streams_pinned, [(id, now_ms) for id in ids])
    return sum(connection.run(sql.prune_streams, (id, before_ms)) for id in ids)


def _prune_dedup(before_ms: int, limit: int, connection: Connection) -> int:
    return connection.run(sql.prune_dedup, (before_ms, limit))


def _copy(connection: Connection, path: Path) -> None:
    if path.exists():
        raise Conflict(f"{path} exists already; choose another name, or remove it first")
    unfinished = path.with_name(path.name + ".partial")
    unfinished.unlink(missing_ok=True)
    connection.run("VACUUM INTO ?", (str(unfinished),))
    unfinished.chmod(0o600)
    unfinished.rename(path)


def has_wal_reset_fix(version: str) -> bool:
    """Whether the WAL-reset bug is fixed in this SQLite: it could lose commits made during a checkpoint."""
    numbers = tuple(int(part) for part in version.split("."))
    return numbers >= (3, 51, 3) or (3, 50, 7) <= numbers < (3, 51) or (3, 44, 6) <= numbers < (3, 45)
