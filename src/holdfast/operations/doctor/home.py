"""Checks of the home folder: permissions, file system and free space."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

from holdfast.domain.errors import BadConfig
from holdfast.domain.store_url import is_postgres
from holdfast.home import Home
from holdfast.operations.doctor.finding import Finding, fail, mib, ok, warn
from holdfast.store.file_system import MOUNTS, NETWORK, find_kind
from holdfast.store.open import sqlite_path

VOLATILE = frozenset({"tmpfs", "ramfs", "devtmpfs"})


def check_permissions(home: Home) -> list[Finding]:
    """Whether other users can access the home folder or a secret in it."""
    root = home.root
    try:
        found = root.stat()
    except FileNotFoundError:
        return [warn("home.permissions", f"{root} does not exist yet", "run: holdfast up")]
    if not stat.S_ISDIR(found.st_mode):
        return [fail("home.permissions", f"{root} is not a folder", "set HOLDFAST_HOME to a folder of your own")]
    if found.st_uid != os.geteuid():
        todo = "set HOLDFAST_HOME to a folder of your own"
        return [fail("home.permissions", f"{root} belongs to another user", todo)]
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return [fail("home.permissions", f"{root} is writable by other users", f"run: chmod 700 {root}")]
    if found.st_mode & 0o077:
        text = f"{root} is accessible to other users"
        return [warn("home.permissions", text, f"run: chmod 700 {root}"), *_open_secrets(home)]
    return [ok("home.permissions", f"only you can access {root}"), *_open_secrets(home)]


def _open_secrets(home: Home) -> list[Finding]:
    """Files with secrets that other users can read. In a folder with mode 0700 no other user can read any file."""
    try:
        home.read_token()
    except BadConfig as error:
        return [fail("home.secrets", error.message)]
    closed = not home.root.stat().st_mode & 0o077
    within = [home.database, *(home.database.with_name(home.database.name + end) for end in ("-wal", "-shm"))]
    looked = [path for path in (home.config, *within) if not (closed and path.parent == home.root)]
    readable = [path for path in looked if _mode(path) & 0o044]
    if not readable:
        return [ok("home.secrets", "no secret is readable by other users")]
    names = ", ".join(map(str, readable))
    return [fail("home.secrets", f"readable by other users: {names}", f"run: chmod 600 {' '.join(map(str, readable))}")]


def check_disk(home: Home, url: str | None, low_water_bytes: int, ballast_bytes: int, alive: bool) -> list[Finding]:
    """Free space where the store writes. With PostgreSQL that is the home, which still holds the spool."""
    folder = _nearest(_folder(home, url))
    found = os.statvfs(folder)
    if found.f_flag & os.ST_RDONLY:
        return [fail("home.disk", f"the file system of {folder} is read-only", "remount it read-write")]
    free = found.f_bavail * found.f_frsize
    space = f"{mib(free)} free in {folder}"
    if free < low_water_bytes:
        text = f"{space}: below {mib(low_water_bytes)}, no new events are accepted"
        return [fail("home.disk", text, "free disk space; events are then accepted again automatically")]
    if free < low_water_bytes + ballast_bytes:
        text = f"{space}: below {mib(low_water_bytes)}, no new events will be accepted"
        return [warn("home.disk", text, "free disk space, or move the store to a larger disk")]
    return [ok("home.disk", space), *_check_ballast(url, ballast_bytes, alive)]


def _check_ballast(url: str | None, ballast_bytes: int, alive: bool) -> list[Finding]:
    """The file that a running keeper reserves, to be deleted when the disk is full."""
    if url is None or is_postgres(url) or not ballast_bytes or not alive:
        return []
    database = sqlite_path(url)
    ballast = database.with_name(database.name + ".ballast")
    try:
        size = ballast.stat().st_size
    except FileNotFoundError:
        size = 0
    if size < ballast_bytes:
        text = f"{ballast} is missing, so no space is reserved for a full disk"
        return [warn("home.ballast", text, "free disk space; the daemon then creates it again")]
    return [ok("home.ballast", f"{mib(size)} are reserved for a full disk")]


def check_filesystem(home: Home, url: str | None, mounts: Path = MOUNTS) -> list[Finding]:
    folder = _nearest(_folder(home, url))
    kind = find_kind(folder, mounts)
    if kind is None:
        return [ok("home.filesystem", f"the file system of {folder} is unknown on {sys.platform}")]
    if kind in NETWORK:
        local = "move HOLDFAST_HOME to a local disk"
        text = f"{folder} is on a network file system ({kind})"
        if url is not None and is_postgres(url):
            return [warn("home.filesystem", f"{text}: the spool may be slow", local)]
        return [fail("home.filesystem", f"{text}: SQLite may lose data there", local)]
    if kind in VOLATILE:
        text = f"{folder} is on {kind}: its contents are lost at a reboot"
        return [warn("home.filesystem", text, "move HOLDFAST_HOME to a persistent disk")]
    return [ok("home.filesystem", f"{folder} is on {kind}")]


def _folder(home: Home, url: str | None) -> Path:
    return home.root if url is None or is_postgres(url) else sqlite_path(url).parent


def _nearest(folder: Path) -> Path:
    """The folder, or its nearest existing parent."""
    return next((path for path in (folder, *folder.parents) if path.is_dir()), Path("/"))


def _mode(path: Path) -> int:
    try:
        return path.stat().st_mode
    except OSError:
        return 0
