"""Free disk space: a low-water mark below which intake closes, and a ballast file to delete when the disk is full.

A full disk cannot even be pruned, because deleting rows writes too. So new events are refused while there is still
space to finish the accepted ones, and the keeper reserves some blocks in a ballast file that it deletes when needed.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from holdfast.domain.contract import Contract
from holdfast.domain.errors import StoreFull
from holdfast.domain.event import Appended, NewEvent
from holdfast.ports import Clock
from holdfast.store.roles.owners import Actor
from holdfast.store.sqlite.contracts import SqliteContracts
from holdfast.store.sqlite.events import SqliteEvents

MIB = 1 << 20
LOOK_EVERY_MS = 500
REMAKE_AFTER_MS = 2000

log = logging.getLogger("holdfast.disk")


def free_bytes(folder: Path) -> int:
    """Free bytes for an ordinary user. Raises `OSError` if the file system is read-only."""
    stats = os.statvfs(folder)
    if stats.f_flag & os.ST_RDONLY:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(folder))
    return stats.f_bavail * stats.f_frsize


@dataclass(frozen=True, slots=True)
class DiskSpace:
    """How much is kept free. The mark is above the ballast: deleting the ballast must not open intake again."""

    low_water_bytes: int = 32 * MIB
    ballast_bytes: int = 16 * MIB
    free: Callable[[Path], int] = free_bytes

    def __post_init__(self) -> None:
        if self.low_water_bytes < self.ballast_bytes * 3 // 2:
            raise ValueError("the low-water mark must be at least one and a half times the ballast")


class Disk:
    """Watches the disk of one database. Only the keeper has a ballast; every process obeys the mark."""

    def __init__(self, database: Path, clock: Clock, keeper: bool, space: DiskSpace) -> None:
        self._database, self._folder = database, database.parent
        self._clock, self._keeper, self._space = clock, keeper, space
        self.ballast = database.with_name(database.name + ".ballast")
        self._free: int | None = None
        self._read_only = False
        self._looked_ms = self._ran_out_ms = -REMAKE_AFTER_MS
        self.look(make=False)

    def admit(self) -> None:
        """Raise while there is too little space for new events. Claims, settlements and reads do not call this."""
        if self._clock.boot_ms() - self._looked_ms >= LOOK_EVERY_MS:
            self.look(make=False)
        if (why := self.refusal()) is not None:
            raise StoreFull(why)

    def refusal(self) -> str | None:
        """Why nothing new is accepted; None if there is enough space."""
        if self._read_only:
            return (
                f"the file system of {self._folder} is read-only: events can be read, nothing new is accepted; "
                "mount it writable, and intake opens by itself"
            )
        if self.is_low:
            return (
                f"only {(self._free or 0) / MIB:.1f} MiB are free in {self._folder}, and below "
                f"{self._space.low_water_bytes / MIB:g} MiB nothing new is accepted, so that what was accepted can be "
                "finished; free some space, and intake opens by itself"
            )
        return None

    @property
    def is_low(self) -> bool:
        return self._free is not None and self._free < self._space.low_water_bytes

    def look(self, make: bool = True) -> None:
        """Measure free space. Delete the ballast when it is needed; with `make`, create it when there is plenty."""
        self._looked_ms = self._clock.boot_ms()
        was_low = self.is_low
        self._free = self._measure()
        if self.is_low != was_low:
            log.warning("intake is %s: %s", "closed" if self.is_low else "open again", self.gauges())
        if not self._keeper or self._free is None:
            return
        if self._free < self._space.ballast_bytes // 4:
            self._delete_ballast()
            return
        plenty = self._free >= self._space.low_water_bytes + self._space.ballast_bytes
        if make and plenty and not self._has_ballast() and self._looked_ms - self._ran_out_ms >= REMAKE_AFTER_MS:
            self._create_ballast()

    def ran_out(self) -> None:
        """Call this when a write found the disk full: the space of the ballast is freed for the next try."""
        if self._keeper and os.access(self._database, os.W_OK):  # a read-only file is not a full disk
            self._ran_out_ms = self._clock.boot_ms()
            self._delete_ballast()

    def close(self) -> None:
        """Delete the ballast. After a crash it remains, for the next start."""
        if self._keeper:
            with contextlib.suppress(OSError):
                self.ballast.unlink()

    def gauges(self) -> dict[str, int | bool | None]:
        return {
            "disk_free_bytes": self._free,
            "ballast_bytes": _size(self.ballast),
            "intake_open": not (self.is_low or self._read_only),
        }

    def _measure(self) -> int | None:
        self._read_only = False
        try:
            return self._space.free(self._folder)
        except OSError as error:  # unknown, which is not the same as full
            self._read_only = error.errno == errno.EROFS
            log.warning("the free space of %s cannot be measured: %s", self._folder, error)
            return None

    def _has_ballast(self) -> bool:
        return _size(self.ballast) == self._space.ballast_bytes

    def _delete_ballast(self) -> None:
        with contextlib.suppress(OSError):
            self.ballast.unlink()
            log.warning("no space left in %s: the ballast file was deleted", self._folder)

    def _create_ballast(self) -> None:
        try:
            self.ballast.unlink(missing_ok=True)
            descriptor = os.open(self.ballast, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
            try:
                _fill(descriptor, self._space.ballast_bytes)
            finally:
                os.close(descriptor)
        except OSError as error:
            log.warning("the ballast file cannot be created in %s: %s", self._folder, error)
            with contextlib.suppress(OSError):
                self.ballast.unlink()


class IntakeEvents(SqliteEvents):
    """Events, accepted only while there is enough disk space."""

    disk: Disk

    async def append(self, events: Sequence[NewEvent]) -> list[Appended]:
        self.disk.admit()
        return await super().append(events)


class IntakeContracts(SqliteContracts):
    """Contracts, accepted only while there is enough disk space. Disabling and removing is always allowed."""

    disk: Disk

    async def put(
        self,
        contract: Contract,
        secret: str | None,
        *,
        headers: Mapping[str, str] | None = None,
        keep: bool = False,
        by: Actor | None = None,
    ) -> None:
        if not keep:  # an application that restarts registers contracts that are stored already
            self.disk.admit()
        await super().put(contract, secret, headers=headers, keep=keep, by=by)


def _fill(descriptor: int, count: int) -> None:
    """Allocate real blocks: a sparse file would reserve nothing."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(descriptor, 0, count)
        return
    for _ in range(0, count, MIB):
        os.write(descriptor, b"\xb5" * MIB)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
