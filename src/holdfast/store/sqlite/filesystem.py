"""Refuse network file systems: SQLite's log needs shared memory and locks that they do not provide."""

from __future__ import annotations

import os
from pathlib import Path

from holdfast.domain.errors import StoreError

_NETWORK = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "virtiofs", "fuse.sshfs", "afs", "ceph", "glusterfs"}
)


def refuse_network(folder: Path) -> None:
    kind = file_system(folder)
    if kind in _NETWORK:
        raise StoreError(f"{folder} is on a network file system ({kind}), where SQLite can lose data; use a local disk")


def file_system(folder: Path, mounts: str = "/proc/self/mounts") -> str | None:
    """The type of the file system a folder is on, None where that is unknown."""
    try:
        lines = Path(mounts).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    real = os.path.realpath(folder)
    best, kind = "", None
    for line in lines:
        parts = line.split()
        if len(parts) < 3:
            continue
        mount = parts[1].replace("\\040", " ")
        inside = real == mount or real.startswith(mount.rstrip("/") + "/")
        if inside and len(mount) >= len(best):
            best, kind = mount, parts[2]
    return kind
