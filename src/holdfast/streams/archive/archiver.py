"""Writes events that retention may remove to archives, and records them. The store removes only what is recorded."""

from __future__ import annotations

import logging
from functools import partial
from pathlib import Path

from holdfast.domain.event import Event
from holdfast.ports import Chance, Clock, in_thread
from holdfast.store.roles.archives import EventRange
from holdfast.store.roles.store import Store
from holdfast.streams.archive.archive_file import Manifest, remove_archive, write_archive

EVENTS_MAX = 20_000
BYTES_MAX = 64 * 1024 * 1024
PAGE = 500
FIRST_S = 30.0

log = logging.getLogger("holdfast.archive")


class Archiver:
    """The duty that archives. It runs as often as retention, and before its first run."""

    name = "archive"

    def __init__(self, store: Store, folder: Path, kept_ms: int, every_s: float, clock: Clock, chance: Chance) -> None:
        self._store, self._folder, self._kept_ms, self._every_s = store, folder, kept_ms, every_s
        self._clock, self._chance = clock, chance
        self._first = True

    async def tick(self) -> float | None:
        """Write one archive, and come back after a second if there may be more."""
        if self._first:
            self._first = False
            return min(FIRST_S, self._every_s)
        return 1.0 if await self.archive() is not None else self._every_s

    async def archive(self) -> Manifest | None:
        """Write one archive of at most `EVENTS_MAX` events and about `BYTES_MAX` bytes; None: nothing to do."""
        now_ms = self._clock.now_ms()
        ranges = await self._store.archives.archivable(now_ms - self._kept_ms, EVENTS_MAX)
        if not ranges:
            return None
        events = await self._read(ranges)
        id = f"{now_ms:013d}-{self._chance.entropy(4).hex()}"
        manifest = await in_thread("files", partial(write_archive, self._folder, id, events, now_ms))
        if not await self._store.archives.record(manifest.row(now_ms), manifest.streams):
            await in_thread("files", partial(remove_archive, self._folder, id))
            return None
        log.info("archived %d events of %d streams in %s", manifest.events, len(manifest.streams), id)
        return manifest

    async def _read(self, ranges: list[EventRange]) -> list[Event]:
        events: list[Event] = []
        size = 0
        for stream, first_seq, last_seq in ranges:
            after = first_seq - 1
            while after < last_seq and size < BYTES_MAX:
                page = [one for one in await self._store.events.read(stream, after, PAGE) if one.seq <= last_seq]
                if not page:
                    break
                events += page
                size += sum(len(one.payload_json) + len(one.properties_json) for one in page)
                after = page[-1].seq
        return events
