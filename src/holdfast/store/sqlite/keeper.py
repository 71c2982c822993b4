"""The keeper of a file: one process at a time routes, delivers, checkpoints and prunes.

The keeper holds a file lock that the operating system frees when the process dies, so a successor can start at once.
"""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path
from typing import Any

from holdfast.domain.errors import KeeperHeld


class Keeper:
    """Holds the lock until `release`. Raises `KeeperHeld` if another process has it."""

    def __init__(self, database: Path, facts: dict[str, Any]) -> None:
        self.path = database.with_name(database.name + ".keeper")
        self._descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = _holder(self.path)
            os.close(self._descriptor)
            raise KeeperHeld(
                f"{database} is kept by process {holder.get('pid', 'unknown')} ({holder.get('what', 'unknown')}, since "
                f"{holder.get('since', 'unknown')}). Stop it first, or point HOLDFAST_HOME at another folder"
            ) from None
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, json.dumps({"pid": os.getpid(), **facts}).encode(), 0)

    def release(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _holder(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}
