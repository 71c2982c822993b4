"""File changes on Linux, by inotify."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import errno
import logging
import os
import struct
from collections.abc import Callable
from pathlib import Path

_MODIFY, _MOVED_TO, _CREATE, _DELETE, _MOVED_FROM = 0x2, 0x80, 0x100, 0x200, 0x40
_OVERFLOW, _IGNORED = 0x4000, 0x8000
_MASK = _MODIFY | _MOVED_TO | _CREATE | _DELETE | _MOVED_FROM
_EVENT = struct.Struct("iIII")
READ_BYTES = 64 * 1024
PAUSE_S = 0.005
"""Between two reads of a burst: a process that writes a thousand times a second need not be called for each."""

log = logging.getLogger("holdfast")

Changed = Callable[[], None]
Wanted = Callable[[str], bool]


class Inotify:
    """One inotify instance for any number of folders: a user may have only 128 instances."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._descriptor = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._descriptor < 0:
            raise OSError(ctypes.get_errno(), "inotify_init1 failed")
        self._watches: dict[int, list[tuple[Wanted, Changed]]] = {}
        self._loop = asyncio.get_running_loop()
        self._read_at_s = 0.0
        self._listen()

    def watch(self, folder: Path, wanted: Wanted, changed: Changed) -> bool:
        number = self._libc.inotify_add_watch(self._descriptor, os.fsencode(folder), _MASK)
        if number < 0:
            log.info("%s cannot be watched and is polled: %s", folder, os.strerror(ctypes.get_errno()))
            return False
        self._watches.setdefault(number, []).append((wanted, changed))
        return True

    def close(self) -> None:
        if self._descriptor >= 0:
            with contextlib.suppress(RuntimeError):  # the loop may be closed already
                self._loop.remove_reader(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = -1

    def _listen(self) -> None:
        if self._descriptor >= 0:
            self._loop.add_reader(self._descriptor, self._read)

    def _read(self) -> None:
        before_s, self._read_at_s = self._read_at_s, self._loop.time()
        if self._read_at_s - before_s < PAUSE_S:
            self._loop.remove_reader(self._descriptor)
            self._loop.call_later(PAUSE_S, self._listen)
        try:
            data = os.read(self._descriptor, READ_BYTES)
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.EINTR):
                log.warning("file changes are no longer noticed and are polled: %s", error)
                self.close()
            return
        called: dict[Changed, None] = {}
        at = 0
        while at + _EVENT.size <= len(data):
            number, mask, _, length = _EVENT.unpack_from(data, at)
            name = os.fsdecode(data[at + _EVENT.size : at + _EVENT.size + length].rstrip(b"\0"))
            at += _EVENT.size + length
            if mask & _OVERFLOW:
                called.update((changed, None) for watches in self._watches.values() for _, changed in watches)
            elif mask & _IGNORED:
                self._watches.pop(number, None)
            else:
                called.update((changed, None) for wanted, changed in self._watches.get(number, ()) if wanted(name))
        for changed in called:
            changed()
