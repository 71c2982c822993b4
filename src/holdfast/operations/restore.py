"""Restore: replace a store's file by a checked copy, and keep the old file."""

from __future__ import annotations

import asyncio
import os
import shutil
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from holdfast.domain.errors import NotFound, StoreError, StoreFailed
from holdfast.ingress.spool import sync_folder
from holdfast.progress import QUIET, Progress, file_growth
from holdfast.store.open import keep_closed, migrate_store, open_store, sqlite_path

LOGS = ("-wal", "-shm")


def restore_file(url: str, copy: Path, progress: Progress = QUIET) -> Path | None:
    """Replace the file. Returns the path of the kept old file, or None if there was none."""
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
            progress.measure = file_growth(fresh, copy)
            _copy(copy, fresh)
            progress.what, progress.measure = "checking the backup", None
            _check(fresh, copy)
            kept = _set_aside(database)
            os.replace(fresh, database)
        finally:
            for suffix in ("", *LOGS):
                Path(f"{fresh}{suffix}").unlink(missing_ok=True)
        sync_folder(database.parent)
    return kept


def _copy(copy: Path, fresh: Path) -> None:
    """Copy the backup, so that it can be checked and migrated without changing the original.

    A backup by Holdfast is one file. A file copied by hand may have a write-ahead log beside it, which belongs to it.
    """
    for suffix in ("", "-wal"):
        with suppress(FileNotFoundError):
            shutil.copyfile(f"{copy}{suffix}", f"{fresh}{suffix}")


def _check(fresh: Path, copy: Path) -> None:
    """Check that it is an intact store of a known version, and migrate an older one."""
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
    """Keep the old file and its log under a name with the time.

    The file is hard-linked, so that the store's path always exists. The log must be moved before the new file arrives,
    since SQLite would replay the old log into it.
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
