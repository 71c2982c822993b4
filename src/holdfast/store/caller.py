"""Settings of the caller's own SQLite connection that durability needs."""

from __future__ import annotations

from holdfast.store.door import Door, Steps
from holdfast.store.drivers import SQLITE

BUSY_TIMEOUT_MS = 5000
_FULL = 2


def prepare(door: Door) -> Steps[None]:
    """Set WAL, full syncs and no automatic checkpoints. On PostgreSQL there is nothing to set.

    WAL and syncs cannot be set inside a transaction, and are not changed where they are right already.
    """
    if door.dialect != SQLITE:
        return
    yield f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}", ()
    yield "PRAGMA wal_autocheckpoint = 0", ()
    if not (yield from _uses_wal()):
        yield "PRAGMA journal_mode = WAL", ()
    if (yield from _value("synchronous")) < _FULL:
        yield "PRAGMA synchronous = FULL", ()


def check(door: Door) -> Steps[list[str]]:
    """The settings under which commits may be lost or delayed; empty if there are none."""
    faults: list[str] = []
    if door.dialect != SQLITE:
        return faults
    if not (yield from _uses_wal()):
        faults.append("journal_mode is not WAL: the daemon and your application will wait for each other")
    if (yield from _value("synchronous")) < _FULL:
        faults.append("synchronous is below FULL: a power cut may lose what you committed last")
    if (yield from _value("wal_autocheckpoint")) != 0:
        faults.append(
            "wal_autocheckpoint is on: leave checkpoints to the daemon (SQLite before 3.51.3 can lose commits)"
        )
    return faults


def _uses_wal() -> Steps[bool]:
    rows = yield "PRAGMA journal_mode", ()
    return str(rows[0][0]).lower() == "wal"


def _value(name: str) -> Steps[int]:
    rows = yield f"PRAGMA {name}", ()
    return int(rows[0][0])
