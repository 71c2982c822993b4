"""The keeper of a file: one process at a time routes, delivers, checkpoints and prunes.

The keeper holds a file lock that the operating system frees when the process dies, so a successor can start at once.
"""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path

from holdfast.domain.errors import KeeperHeld
from holdfast.domain.json_value import JsonObject


class Keeper:
    """Holds the lock until `release`. Raises `KeeperHeld` if another process has it."""

    def __init__(self, database: Path, facts: dict[str, str]) -> None:
        self.path = database.with_name(database.name + ".keeper")
        self._descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = _holder(self.path)
            os.close(self._descriptor)
            raise KeeperHeld(
                f"{database} is kept by process {holder.get('pid', 'unknown')} ({holder.get('what', 'unknown')}, since "
                f"{holder.get('since', 'unknown')}). Stop it first, or point HOLDFAST_HOME at another folder. To "
                f"inspect or repair it meanwhile, name the store: holdfast status --store sqlite:///{database}"
            ) from None
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, json.dumps({"pid": os.getpid(), **facts}).encode(), 0)

    def release(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _holder(path: Path) -> JsonObject:
    try:
        value = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}
