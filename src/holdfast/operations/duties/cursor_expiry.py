"""Ends readers that no process works for, and cursors that have not moved for long, so that retention can go on."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence

from holdfast.domain.cursor import Cursor
from holdfast.ports import Clock
from holdfast.store.roles.store import Store

EXPIRE_MAX = 1000
FIRST_S = 20.0
READER_MIN_MS = 24 * 3600 * 1000  # a process shows every hour that it works for a reader

log = logging.getLogger("holdfast.cursors")

Notify = Callable[[str, Sequence[Cursor]], Awaitable[None]]


class CursorExpiry:
    """Runs as often as retention. `notify`: append a system event for the cursors of one reader."""

    name = "cursors"

    def __init__(self, store: Store, clock: Clock, idle_ms: int, every_s: float, notify: Notify) -> None:
        self._store, self._clock, self._idle_ms, self._every_s = store, clock, idle_ms, every_s
        self._notify = notify
        self._first = True

    async def tick(self) -> float | None:
        if self._first:  # not at the start: other work comes first
            self._first = False
            return min(FIRST_S, self._every_s)
        now_ms = self._clock.now_ms()
        before_ms = now_ms - self._idle_ms
        for name in await self._store.readers.expire(now_ms - max(self._idle_ms, READER_MIN_MS)):
            log.warning("reader %s ended: no process has worked for it since long", name)
        expired = await self._store.cursors.expire(before_ms, EXPIRE_MAX)
        by_reader: dict[str, list[Cursor]] = {}
        for cursor in expired:
            by_reader.setdefault(cursor.reader, []).append(cursor)
        for reader, cursors in by_reader.items():
            log.warning("%d cursors of reader %s expired; retention no longer waits for them", len(cursors), reader)
            await self._notify(reader, cursors)
        return 1.0 if len(expired) == EXPIRE_MAX else self._every_s
