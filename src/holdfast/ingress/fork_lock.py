"""A lock that survives a fork."""

from __future__ import annotations

import os
import threading
from weakref import WeakSet


class ForkLock:
    """A lock that is free in a forked child, also if another thread of the parent held it at that moment.

    A fork copies a lock in its state, but not the thread that would release it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        _locks.add(self)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def reset(self) -> None:
        self._lock = threading.Lock()


_locks: WeakSet[ForkLock] = WeakSet()


def _after_fork_in_child() -> None:
    for lock in _locks:
        lock.reset()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
