"""Refuses a database file that the parent process had open when it forked this process.

SQLite remembers in memory which locks a process holds on a file. A fork copies that memory but not the locks, so a
connection of the child would read and write without a lock and could damage the file.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

from holdfast.domain.errors import StoreError

_open_here: Counter[str] = Counter()
_inherited: set[str] = set()


def mark_open(path: Path) -> None:
    """Count a file as open. To be called before it is opened: another thread may fork meanwhile."""
    name = os.path.realpath(path)
    if name in _inherited:
        raise StoreError(
            f"{path} was open when this process was forked, and SQLite cannot use a file in a parent and its child; "
            "use the outbox only after the fork, or start the process with the start method spawn"
        )
    _open_here[name] += 1


def mark_closed(path: Path) -> None:
    _open_here[os.path.realpath(path)] -= 1


def _after_fork_in_child() -> None:
    _inherited.update(name for name, count in _open_here.items() if count > 0)
    _open_here.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
