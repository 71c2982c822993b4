"""Room on the disk: a low-water mark that closes intake early, and a ballast to let go of when nothing is left.

A full disk cannot even be pruned, for deleting writes too. So new facts are refused while there is still room to
finish what was accepted, and the keeper holds some blocks in a file of its own that it gives up in an emergency.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.domain.contract import Contract
from holdfast.domain.errors import StoreFull
from holdfast.domain.event import Appended, NewEvent
from holdfast.ports import Clock
from holdfast.store.sqlite.contracts import SqliteContracts
from holdfast.store.sqlite.events import SqliteEvents

MIB = 1 << 20
LOOK_EVERY_MS = 500
REMAKE_AFTER_MS = 2000

log = logging.getLogger("holdfast.disk")


def free_bytes(folder: Path) -> int:
    """What an ordinary user may still write there. An error where nothing may be written at all."""
    found = os.statvfs(folder)
    if found.f_flag & os.ST_RDONLY:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(folder))
    return found.f_bavail * found.f_frsize


@dataclass(frozen=True, slots=True)
class DiskSpace:
    """How much is kept free. The mark lies above the ballast: letting go of it must not open intake again."""

    low_water_bytes: int = 32 * MIB
    ballast_bytes: int = 16 * MIB
    free: Callable[[Path], int] = free_bytes

    def __post_init__(self) -> None:
        if self.low_water_bytes < self.ballast_bytes * 3 // 2:
            raise ValueError("the low-water mark must be at least one and a half times the ballast")


class Disk:
    """Watches the room beside one database. Only the keeper has a ballast; everybody heeds the mark."""

    def __init__(self, database: Path, clock: Clock, keeper: bool, space: DiskSpace) -> None:
        self._database, self._folder = database, database.parent
        self._clock, self._keeper, self._space = clock, keeper, space
        self.ballast = database.with_name(database.name + ".ballast")
        self._free: int | None = None
        self._read_only = False
        self._looked_ms = self._ran_out_ms = -REMAKE_AFTER_MS
        self.look(make=False)

    def admit(self) -> None:
        """Refuse a new fact while there is too little room. Claims, settlements and reads do not ask."""
        if self._clock.boot_ms() - self._looked_ms >= LOOK_EVERY_MS:
            self.look(make=False)
        if (why := self.refusal()) is not None:
            raise StoreFull(why)

    def refusal(self) -> str | None:
        """Why nothing new is accepted; None: there is room."""
        if self._read_only:
            return (
                f"the file system of {self._folder} is read-only: what is there can be read, nothing new is accepted; "
                "mount it writable, and intake opens by itself"
            )
        if self.is_low:
            return (
                f"only {(self._free or 0) / MIB:.1f} MiB are free in {self._folder}, and below "
                f"{self._space.low_water_bytes / MIB:g} MiB nothing new is accepted, so that what was accepted can be "
                "finished; make room, and intake opens by itself"
            )
        return None

    @property
    def is_low(self) -> bool:
        return self._free is not None and self._free < self._space.low_water_bytes

    def look(self, make: bool = True) -> None:
        """Measure, and keep the ballast in step: let go in need, make it (on the watch only) when there is plenty."""
        self._looked_ms = self._clock.boot_ms()
        was_low = self.is_low
        self._free = self._measure()
        if self.is_low != was_low:
            log.warning("intake is %s: %s", "closed" if self.is_low else "open again", self.gauges())
        if not self._keeper or self._free is None:
            return
        if self._free < self._space.ballast_bytes // 4:
            self._let_go()
            return
        plenty = self._free >= self._space.low_water_bytes + self._space.ballast_bytes
        if make and plenty and not self._holds() and self._looked_ms - self._ran_out_ms >= REMAKE_AFTER_MS:
            self._make()

    def ran_out(self) -> None:
        """A write found no room. What the ballast held is there for the next try."""
        if self._keeper and os.access(self._database, os.W_OK):  # a file that is read-only has room enough
            self._ran_out_ms = self._clock.boot_ms()
            self._let_go()

    def close(self) -> None:
        """An orderly end leaves nothing lying about. After a crash the ballast is still there, for the next start."""
        if self._keeper:
            with contextlib.suppress(OSError):
                self.ballast.unlink()

    def gauges(self) -> dict[str, Any]:
        return {
            "disk_free_bytes": self._free,
            "ballast_bytes": _size(self.ballast),
            "intake_open": not (self.is_low or self._read_only),
        }

    def _measure(self) -> int | None:
        self._read_only = False
        try:
            return self._space.free(self._folder)
        except OSError as error:  # what cannot be measured is unknown, not nothing
            self._read_only = error.errno == errno.EROFS
            log.warning("the free space of %s cannot be measured: %s", self._folder, error)
            return None

    def _holds(self) -> bool:
        return _size(self.ballast) == self._space.ballast_bytes

    def _let_go(self) -> None:
        with contextlib.suppress(OSError):
            self.ballast.unlink()
            log.warning("no room left in %s: the ballast was given up", self._folder)

    def _make(self) -> None:
        try:
            self.ballast.unlink(missing_ok=True)
            descriptor = os.open(self.ballast, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
            try:
                _fill(descriptor, self._space.ballast_bytes)
            finally:
                os.close(descriptor)
        except OSError as error:
            log.warning("no ballast can be made in %s: %s", self._folder, error)
            with contextlib.suppress(OSError):
                self.ballast.unlink()


class IntakeEvents(SqliteEvents):
    """Events that are taken in only while there is room."""

    disk: Disk

    async def append(self, events: Sequence[NewEvent]) -> list[Appended]:
        self.disk.admit()
        return await super().append(events)


class IntakeContracts(SqliteContracts):
    """Contracts that are taken in only while there is room. To disable or remove one is always allowed."""

    disk: Disk

    async def put(
        self, contract: Contract, secret: str | None, *, headers: Mapping[str, str] | None = None, keep: bool = False
    ) -> None:
        if not keep:  # an application that starts anew says again what the store knows
            self.disk.admit()
        await super().put(contract, secret, headers=headers, keep=keep)


def _fill(descriptor: int, count: int) -> None:
    """Real blocks: a hole would hold nothing."""
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
