"""Restore: put a checked copy in the place of a store's file, and keep what was there."""

from __future__ import annotations

import asyncio
import os
import shutil
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from holdfast.domain.errors import NotFound, StoreError, StoreFailed
from holdfast.ingress.spool import sync_folder
from holdfast.store.open import keep_closed, migrate_store, open_store, sqlite_path

LOGS = ("-wal", "-shm")


def restore_file(url: str, copy: Path) -> Path | None:
    """Where the old file is kept now; None if there was none."""
    if not copy.is_file():
        raise NotFound(f"there is no backup at {copy}")
    database = sqlite_path(url)
    if not database.parent.is_dir():
        raise NotFound(f"the folder {database.parent} does not exist; create it first")
    if database.exists() and os.path.samefile(copy, database):
        raise StoreError(f"{copy} is the store itself; name the backup to restore")
    with keep_closed(url, "holdfast db restore"):
        fresh = database.with_name(f".{database.name}.restore-{os.getpid()}")
        try:
            _copy(copy, fresh)
            _check(fresh, copy)
            kept = _set_aside(database)
            os.replace(fresh, database)
        finally:
            for suffix in ("", *LOGS):
                Path(f"{fresh}{suffix}").unlink(missing_ok=True)
        sync_folder(database.parent)
    return kept


def _copy(copy: Path, fresh: Path) -> None:
    """The copy itself stays untouched: it is looked at, and brought up to date, under another name.

    A backup of ours is one file. A file somebody copied by hand may have its log beside it: that belongs to it.
    """
    for suffix in ("", "-wal"):
        with suppress(FileNotFoundError):
            shutil.copyfile(f"{copy}{suffix}", f"{fresh}{suffix}")


def _check(fresh: Path, copy: Path) -> None:
    """It must be a whole store of a version this program knows; an older one is brought up to date."""
    url = f"sqlite:///{fresh}"
    try:
        before, _ = migrate_store(url, own=True)
        faults = asyncio.run(_faults(url)) if before else []
    except StoreFailed:
        faults = ["SQLite cannot read it"]
    else:
        if before == 0:
            raise StoreError(f"{copy} holds no Holdfast store, so it was not restored")
    if faults:
        raise StoreError(f"{copy} is damaged, so it was not restored: {faults[0]}")
    if Path(f"{fresh}-wal").exists():
        raise StoreError(f"{copy} could not be made one file; is another process using it?")
    sync_file(fresh)


async def _faults(url: str) -> list[str]:
    store = open_store(url, create=False)
    try:
        return await store.maintenance.check()
    finally:
        await store.close()


def _set_aside(database: Path) -> Path | None:
    """Keep the old file and its log under a name that says when.

    The file gets a second name, so that the store's own name is never without a file. The log must go before the
    new file comes: SQLite would play the old log into it.
    """
    if not database.exists():
        return None
    moment = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
    kept = database.with_name(f"{database.name}.before-restore-{moment}")
    os.link(database, kept)
    for suffix in LOGS:
        with suppress(FileNotFoundError):
            os.rename(f"{database}{suffix}", f"{kept}{suffix}")
    sync_folder(database.parent)
    return kept


def sync_file(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
