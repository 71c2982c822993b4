"""The home folder: who may read it, what kind of disk it lies on, and how much room is left there."""

from __future__ import annotations

import os
import re
import stat
import sys
from pathlib import Path

from holdfast.domain.errors import BadConfig
from holdfast.home import Home
from holdfast.operations.doctor.finding import Finding, fail, mib, ok, warn
from holdfast.store.open import is_postgres, sqlite_path

MOUNTS = Path("/proc/self/mountinfo")
MOUNTS_BYTES_MAX = 4 * 1024 * 1024
NETWORK = frozenset({
    "nfs", "nfs3", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "glusterfs", "lustre", "beegfs", "gfs2",
    "ocfs2", "orangefs", "fuse.sshfs", "fuse.s3fs", "fuse.rclone", "fuse.glusterfs", "fuse.ceph",
})  # fmt: skip
"""Where the locks or the shared memory of SQLite's write-ahead log cannot be relied on."""
FLEETING = frozenset({"tmpfs", "ramfs", "devtmpfs"})

_ESCAPE = re.compile(r"\\([0-7]{3})")


def check_permissions(home: Home) -> list[Finding]:
    """Whether others may look into what Holdfast keeps."""
    root = home.root
    try:
        found = root.stat()
    except FileNotFoundError:
        return [warn("home.permissions", f"{root} is not there yet", "run: holdfast up")]
    if not stat.S_ISDIR(found.st_mode):
        return [fail("home.permissions", f"{root} is not a folder", "point HOLDFAST_HOME at a folder of your own")]
    if found.st_uid != os.geteuid():
        todo = "point HOLDFAST_HOME at a folder of your own"
        return [fail("home.permissions", f"{root} belongs to another user", todo)]
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return [fail("home.permissions", f"{root} may be written by others", f"run: chmod 700 {root}")]
    if found.st_mode & 0o077:
        text = f"{root} may be entered by others"
        return [warn("home.permissions", text, f"run: chmod 700 {root}"), *_open_secrets(home)]
    return [ok("home.permissions", f"{root} is closed to everybody but you"), *_open_secrets(home)]


def _open_secrets(home: Home) -> list[Finding]:
    """Files with secrets in them that others may read. Within a closed folder nobody can; its token is refused then."""
    try:
        home.read_token()
    except BadConfig as error:
        return [fail("home.secrets", error.message)]
    closed = not home.root.stat().st_mode & 0o077
    within = [home.database, *(home.database.with_name(home.database.name + end) for end in ("-wal", "-shm"))]
    looked = [path for path in (home.config, *within) if not (closed and path.parent == home.root)]
    readable = [path for path in looked if _mode(path) & 0o044]
    if not readable:
        return [ok("home.secrets", "no secret can be read by others")]
    names = ", ".join(map(str, readable))
    return [fail("home.secrets", f"others may read {names}", f"run: chmod 600 {' '.join(map(str, readable))}")]


def check_disk(home: Home, url: str | None, low_water_bytes: int, ballast_bytes: int, alive: bool) -> list[Finding]:
    """Room, measured where the store writes; with PostgreSQL the home still holds the spool."""
    folder = _nearest(_folder(home, url))
    found = os.statvfs(folder)
    if found.f_flag & os.ST_RDONLY:
        return [fail("home.disk", f"the file system of {folder} is read-only", "mount it writable")]
    free = found.f_bavail * found.f_frsize
    room = f"{mib(free)} are free in {folder}"
    if free < low_water_bytes:
        text = f"{room}: below {mib(low_water_bytes)} nothing new is accepted"
        return [fail("home.disk", text, "make room; intake opens by itself")]
    if free < low_water_bytes + ballast_bytes:
        text = f"{room}: below {mib(low_water_bytes)} nothing new would be accepted"
        return [warn("home.disk", text, "make room, or put the store on a larger disk")]
    return [ok("home.disk", room), *_check_ballast(url, ballast_bytes, alive)]


def _check_ballast(url: str | None, ballast_bytes: int, alive: bool) -> list[Finding]:
    """The blocks a running keeper holds back for a full disk."""
    if url is None or is_postgres(url) or not ballast_bytes or not alive:
        return []
    database = sqlite_path(url)
    ballast = database.with_name(database.name + ".ballast")
    try:
        size = ballast.stat().st_size
    except FileNotFoundError:
        size = 0
    if size < ballast_bytes:
        text = f"{ballast} is not there: on a full disk nothing could be let go of"
        return [warn("home.ballast", text, "make room and wait a moment; the daemon makes it again by itself")]
    return [ok("home.ballast", f"{mib(size)} are held back for a full disk")]


def check_filesystem(home: Home, url: str | None, mounts: Path = MOUNTS) -> list[Finding]:
    folder = _nearest(_folder(home, url))
    kind = find_kind(folder, mounts)
    if kind is None:
        return [ok("home.filesystem", f"the kind of file system of {folder} cannot be told on {sys.platform}")]
    if kind in NETWORK:
        local = "move HOLDFAST_HOME to a disk of this machine"
        if url is not None and is_postgres(url):
            return [warn("home.filesystem", f"{folder} lies on {kind}, over a network: the spool may be slow", local)]
        return [fail("home.filesystem", f"{folder} lies on {kind}, over a network: SQLite may lose data there", local)]
    if kind in FLEETING:
        text = f"{folder} lies on {kind}: everything in it is gone after a reboot"
        return [warn("home.filesystem", text, "move HOLDFAST_HOME to a lasting disk")]
    return [ok("home.filesystem", f"{folder} lies on {kind}")]


def find_kind(folder: Path, mounts: Path) -> str | None:
    """The kind of file system a folder lies on, by the deepest mount around it; None where nobody says."""
    try:
        with mounts.open("rb") as file:
            lines = file.read(MOUNTS_BYTES_MAX).decode("utf-8", "surrogateescape").splitlines()
    except OSError:
        return None
    best, found = -1, None
    here = os.path.realpath(folder)
    for line in lines:
        before, _, after = line.partition(" - ")
        words = before.split(" ")
        if len(words) < 5 or not after:
            continue
        point = _ESCAPE.sub(lambda match: chr(int(match[1], 8)), words[4])
        if (here == point or here.startswith(point.rstrip("/") + "/")) and len(point) >= best:
            best, found = len(point), after.split(" ")[0]
    return found


def _folder(home: Home, url: str | None) -> Path:
    return home.root if url is None or is_postgres(url) else sqlite_path(url).parent


def _nearest(folder: Path) -> Path:
    """The folder, or the first one above it that is there."""
    return next((path for path in (folder, *folder.parents) if path.is_dir()), Path("/"))


def _mode(path: Path) -> int:
    try:
        return path.stat().st_mode
    except OSError:
        return 0
