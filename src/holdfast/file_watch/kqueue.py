"""File changes on macOS and BSD, by kqueue."""

# mypy: disable-error-code="attr-defined"
# The names of kqueue exist only on the systems that have it.

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import select
from collections.abc import Callable
from pathlib import Path

log = logging.getLogger("holdfast")

Changed = Callable[[], None]
Wanted = Callable[[str], bool]


class Kqueue:
    """A folder's own changes come from kqueue as well; writes into a file need a descriptor of that file."""

    def __init__(self) -> None:
        self._queue = select.kqueue()
        self._callbacks: dict[int, tuple[Path, Wanted, Changed]] = {}
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._queue.fileno(), self._read)

    def watch(self, folder: Path, wanted: Wanted, changed: Changed) -> bool:
        try:
            self._add(folder, (folder, wanted, changed))
            self._add_files(folder, wanted, changed)
        except OSError as error:
            log.info("%s cannot be watched and is polled: %s", folder, error)
            return False
        return True

    def close(self) -> None:
        with contextlib.suppress(RuntimeError, ValueError):
            self._loop.remove_reader(self._queue.fileno())
        self._queue.close()
        for descriptor in self._callbacks:
            os.close(descriptor)
        self._callbacks = {}

    def _add(self, path: Path, callback: tuple[Path, Wanted, Changed]) -> None:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_EVTONLY", 0))
        notes = select.KQ_NOTE_WRITE | select.KQ_NOTE_EXTEND | select.KQ_NOTE_DELETE | select.KQ_NOTE_RENAME
        flags = select.KQ_EV_ADD | select.KQ_EV_CLEAR
        self._queue.control([select.kevent(descriptor, select.KQ_FILTER_VNODE, flags, notes)], 0)
        self._callbacks[descriptor] = callback

    def _add_files(self, folder: Path, wanted: Wanted, changed: Changed) -> None:
        known = {callback[0] for callback in self._callbacks.values()}
        for path in folder.iterdir():
            if wanted(path.name) and path not in known and path.is_file():
                self._add(path, (path, wanted, changed))

    def _read(self) -> None:
        called: dict[Changed, None] = {}
        for event in self._queue.control(None, 64, 0):
            path, wanted, changed = self._callbacks[event.ident]
            called[changed] = None
            if event.fflags & (select.KQ_NOTE_DELETE | select.KQ_NOTE_RENAME):
                del self._callbacks[event.ident]
                os.close(event.ident)
            elif path.is_dir():
                with contextlib.suppress(OSError):
                    self._add_files(path, wanted, changed)
        for changed in called:
            changed()
