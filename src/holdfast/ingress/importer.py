"""Import the spool: each record once, in the order in which the writers finished."""

from __future__ import annotations

import asyncio
import logging
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from holdfast.domain.errors import BadInput, DedupConflict, HoldfastError, StoreError
from holdfast.domain.event import NewEvent, new_event
from holdfast.domain.json_value import Json, text_in
from holdfast.domain.text import short_repr
from holdfast.ingress.lateness import LateRecords
from holdfast.ingress.spool import RECORD_MAX, SpoolPosition, position_of, read_raw, read_record, sync_folder
from holdfast.ingress.spool_decoder import EventDecoder, SpoolDecoder
from holdfast.ports import NO_COUNTERS, Clock, Counters
from holdfast.progress import Progress
from holdfast.store.roles.events import Events

POLL_S = 1.0
BATCH_MAX = 200
BATCH_BYTES_MAX = 8 * 1024 * 1024
PAUSE_EVERY = (
    20  # records between two pauses, about the time of one delivery, so that a busy spool does not block other tasks
)
RAW_MAX = 4000
MANY = 5000
"""So many records at once are worth a line in the log."""

log = logging.getLogger("holdfast.spool")


class SpoolImport:
    """Imports a folder. A record is removed after its event is stored; its id makes a second import harmless.

    The kind in a record's header names the decoder that turns it into an event. Records that a decoder skips
    are counted in `unlisted`; repetitions of one event, recognized by their dedup key, in `repeated`.
    """

    name = "spool"

    def __init__(
        self,
        folder: Path,
        events: Events,
        clock: Clock,
        decoders: Iterable[SpoolDecoder] = (),
        lateness: LateRecords | None = None,
        counters: Counters = NO_COUNTERS,
    ) -> None:
        self._folder, self._events, self._clock = folder, events, clock
        self._decoders = {decoder.kind: decoder for decoder in (EventDecoder(), *decoders)}
        self._lateness, self._counters = lateness or LateRecords(), counters
        self.imported = 0
        self.rejected = 0
        self.unlisted = 0
        self.repeated = 0

    async def tick(self) -> float | None:
        """Import all records, oldest first. One that can be neither imported nor moved blocks no other."""
        positions, stuck, done = self._list(), None, 0
        with Progress("importing the spool", log=log.info, quiet=len(positions) < MANY) as progress:
            for batch in self._batches(positions):
                progress(done, len(positions))
                try:
                    await self._import(batch)
                except OSError as error:
                    stuck = error
                done += len(batch)
        if len(positions) >= MANY:
            log.info("imported %d records from the spool", len(positions))
        if stuck is not None:
            raise stuck
        return 0.0 if positions else POLL_S

    def _batches(self, positions: list[SpoolPosition]) -> Iterator[list[SpoolPosition]]:
        """Batches of at most 200 records and 8 MB."""
        batch: list[SpoolPosition] = []
        size = 0
        for position in positions:
            size += self._size(position)
            if batch and (len(batch) == BATCH_MAX or size > BATCH_BYTES_MAX):
                yield batch
                batch, size = [], self._size(position)
            batch.append(position)
        if batch:
            yield batch

    def _size(self, position: SpoolPosition) -> int:
        try:
            return min((self._folder / position.name).lstat().st_size, RECORD_MAX)
        except OSError:
            return 0

    def _list(self) -> list[SpoolPosition]:
        """Read the folder twice: while it changes, a listing may show a later record and miss an earlier one."""
        first = self._look()
        if not first:
            return []
        newest = max(self._key(position) for position in first.values())
        older = {name: position for name, position in self._look().items() if self._key(position) < newest}
        return sorted((first | older).values(), key=self._key)

    def _look(self) -> dict[str, SpoolPosition]:
        try:
            names = os.listdir(self._folder)
        except FileNotFoundError:
            return {}
        return {position.name: position for name in names if (position := position_of(name)) is not None}

    def _key(self, position: SpoolPosition) -> tuple[int, float, int, str]:
        """The sort key: records of this boot by the boot clock, after those of earlier boots, by file time."""
        if position.boot == self._clock.boot_id[:16].lower():
            return (1, 0.0, position.since_boot_ns, position.name)
        try:
            written = (self._folder / position.name).lstat().st_mtime
        except FileNotFoundError:
            written = 0.0
        return (0, written, position.since_boot_ns, position.name)

    async def _import(self, positions: list[SpoolPosition]) -> None:
        """Append all readable records, then delete their files. Files that cannot be imported go to `rejected/`."""
        self._lateness.begin()
        bad = await self._append(positions)
        self._lateness.keep()
        self._clear(positions, bad)

    async def _append(self, positions: list[SpoolPosition]) -> set[str]:
        """Append the events. Returns the file names of records that could not be appended."""
        read: dict[SpoolPosition, NewEvent] = {}
        bad: set[str] = set()
        for number, position in enumerate(positions, 1):
            if number % PAUSE_EVERY == 0:
                await asyncio.sleep(0)
            try:
                event = self._read(position)
            except (HoldfastError, OSError) as error:
                event = self._reject(position, error)
                bad.add(position.name)
            if event is None:
                self.unlisted += 1
            else:
                read[position] = event
        read = self._once(read)
        try:
            await self._events.append(list(read.values()))
        except StoreError:
            raise
        except HoldfastError:
            bad |= await self._one_by_one(read)
        return bad

    def _once(self, read: dict[SpoolPosition, NewEvent]) -> dict[SpoolPosition, NewEvent]:
        """Remove the second of two events with the same dedup key, if the decoder treats such a pair as one event."""
        keys = Counter(event.dedup_key for event in read.values() if self._repeats(event))
        if not any(count > 1 for count in keys.values()):
            return read
        seen: set[str | None] = set()
        kept = {}
        for position, event in read.items():
            if self._repeats(event) and event.dedup_key in seen:
                self.repeated += 1
            else:
                seen.add(event.dedup_key)
                kept[position] = event
        return kept

    async def _one_by_one(self, read: dict[SpoolPosition, NewEvent]) -> set[str]:
        """Append events one at a time, after one of them failed (a dedup key used with another body)."""
        bad = set()
        for position, event in read.items():
            try:
                await self._events.append([event])
            except StoreError:
                raise
            except HoldfastError as error:
                if self._repeats(event) and isinstance(error, DedupConflict):
                    self.repeated += 1
                elif not await self._append_plain(position, error):
                    bad.add(position.name)
        return bad

    async def _append_plain(self, position: SpoolPosition, why: HoldfastError) -> bool:
        """Append without the mark `spool_late`, which is not part of the event: it may then equal the first one."""
        try:
            plain = self._read(position, late=False)
            await self._events.append([plain] if plain is not None else [])
        except StoreError:
            raise
        except (HoldfastError, OSError):
            await self._events.append([self._reject(position, why)])
            return False
        return True

    def _clear(self, positions: list[SpoolPosition], bad: set[str]) -> None:
        """Delete imported files and move the bad ones. A rename, so that a bad record is never in neither folder.

        The folder is not synced for deletions: if a file reappears after a crash, its event id is already stored.
        """
        kept, stuck = self._folder / "rejected", None
        for position in positions:
            path = self._folder / position.name
            if position.name not in bad:
                path.unlink(missing_ok=True)
                continue
            try:
                kept.mkdir(mode=0o700, exist_ok=True)
                os.rename(path, kept / position.name)
                self.rejected += 1
            except FileNotFoundError:
                pass
            except OSError as error:
                stuck = error
        if bad:
            sync_folder(self._folder)
        self.imported += len(positions)
        self._counters.accepted("spool", len(positions))
        if stuck is not None:
            raise stuck

    def _read(self, position: SpoolPosition, late: bool | None = None) -> NewEvent | None:
        """The event of a record. A late one is marked, and appended nevertheless."""
        header, body = read_record(self._folder / position.name)
        event = self._event_of(header, body, late=bool(late))
        if event is not None and late is None and self._lateness.is_late(position, event.stream):
            return self._event_of(header, body, late=True)
        return event

    def _event_of(self, header: dict[str, Json], body: bytes, late: bool) -> NewEvent | None:
        decoder = self._decoders.get(text_in(header, "kind") or "")
        if decoder is None:
            raise BadInput(f"the spool record has the unknown kind {short_repr(header['kind'])}")
        return decoder.decode(header, body, late=late)

    def _repeats(self, event: NewEvent) -> bool:
        return event.dedup_key is not None and any(decoder.repeats(event) for decoder in self._decoders.values())

    def _reject(self, position: SpoolPosition, error: HoldfastError | OSError) -> NewEvent:
        """An event that reports a record which could not be imported, for contracts."""
        reason = error.message if isinstance(error, HoldfastError) else f"it cannot be read ({error.strerror})"
        log.warning("spool record %s cannot be imported: %s; it is kept in rejected/", position.name, reason)
        return new_event(
            "error.error",
            {"message": reason, "file": position.name, "raw": self._excerpt(position)},
            source="holdfast",
            properties={"severity": "error", "error_source": "spool", "error_code": "SPOOL_INVALID"},
            id="evt_" + position.name.replace("-", "")[:60].removesuffix(".evt"),
        )

    def _excerpt(self, position: SpoolPosition) -> str:
        """The start of a record as text, for display. The file itself is kept unchanged."""
        try:
            raw = read_raw(self._folder / position.name, RAW_MAX)
        except (BadInput, OSError):
            return ""
        return raw.decode("utf-8", "replace").replace("\x00", "\ufffd")


def spool_depth(folder: Path) -> int:
    """The number of records to be imported."""
    try:
        return sum(1 for name in os.listdir(folder) if position_of(name) is not None)
    except FileNotFoundError:
        return 0
