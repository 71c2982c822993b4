"""The file system that a folder is on. SQLite's log needs locks and shared memory that network file systems lack."""

from __future__ import annotations

import os
import re
from pathlib import Path

from holdfast.domain.errors import StoreError

MOUNTS = Path("/proc/self/mountinfo")
MOUNTS_BYTES_MAX = 4 * 1024 * 1024
NETWORK = frozenset({
    "nfs", "nfs3", "nfs4", "cifs", "smb3", "smbfs", "9p", "virtiofs", "afs", "ceph", "glusterfs", "lustre", "beegfs",
    "gfs2", "ocfs2", "orangefs", "fuse.sshfs", "fuse.s3fs", "fuse.rclone", "fuse.glusterfs", "fuse.ceph",
})  # fmt: skip
"""File systems on which the locks or the shared memory of SQLite's write-ahead log are not reliable."""

_ESCAPE = re.compile(r"\\([0-7]{3})")


def refuse_network(folder: Path, mounts: Path = MOUNTS) -> None:
    kind = find_kind(folder, mounts)
    if kind in NETWORK:
        raise StoreError(f"{folder} is on a network file system ({kind}), where SQLite can lose data; use a local disk")


def find_kind(folder: Path, mounts: Path) -> str | None:
    """The type of the file system a folder is on, by its deepest mount point, or None if it is unknown."""
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
