"""Importing the spool: each record once, in the order in which its writers finished."""

from __future__ import annotations

import asyncio
import logging
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from holdfast.domain.errors import BadInput, DedupConflict, HoldfastError, StoreError
from holdfast.domain.event import NewEvent, new_event
from holdfast.domain.text import short_repr
from holdfast.ingress.lateness import Lateness
from holdfast.ingress.spool import RECORD_MAX, SpoolPosition, position_of, read_raw, read_record, sync_folder
from holdfast.ingress.spool_decoder import EventDecoder, SpoolDecoder
from holdfast.ports import Clock
from holdfast.store.roles.events import Events

POLL_S = 1.0
BATCH_MAX = 200
BATCH_BYTES_MAX = 8 * 1024 * 1024
GIVE_WAY = 20  # so many records take about as long as one delivery: a noisy spool keeps nobody else waiting for more
RAW_MAX = 4000

log = logging.getLogger("holdfast.spool")


class SpoolImport:
    """Imports a folder. A record is removed after its event is stored; its id makes a second import harmless.

    The kind in a record's header names the decoder that turns it into an event. Records that a decoder does not want
    are counted in `unlisted`; repetitions of one event, recognized by their dedup key, in `repeated`.
    """

    name = "spool"

    def __init__(
        self,
        folder: Path,
        events: Events,
        clock: Clock,
        decoders: Iterable[SpoolDecoder] = (),
        lateness: Lateness | None = None,
    ) -> None:
        self._folder, self._events, self._clock = folder, events, clock
        self._decoders = {decoder.kind: decoder for decoder in (EventDecoder(), *decoders)}
        self._lateness = lateness or Lateness()
        self.imported = 0
        self.rejected = 0
        self.unlisted = 0
        self.repeated = 0

    async def tick(self) -> float | None:
        """Import what lies there, oldest first. One that can be neither imported nor set aside holds up no other."""
        places, stuck = self._list(), None
        for batch in self._batches(places):
            try:
                await self._import(batch)
            except OSError as error:
                stuck = error
        if stuck is not None:
            raise stuck
        return 0.0 if places else POLL_S

    def _batches(self, places: list[SpoolPosition]) -> Iterator[list[SpoolPosition]]:
        """At most so many at a time, and not more than fits comfortably into memory."""
        batch: list[SpoolPosition] = []
        size = 0
        for place in places:
            size += self._size(place)
            if batch and (len(batch) == BATCH_MAX or size > BATCH_BYTES_MAX):
                yield batch
                batch, size = [], self._size(place)
            batch.append(place)
        if batch:
            yield batch

    def _size(self, place: SpoolPosition) -> int:
        try:
            return min((self._folder / place.name).lstat().st_size, RECORD_MAX)
        except OSError:
            return 0

    def _list(self) -> list[SpoolPosition]:
        """Two looks: a folder that changes while it is read may show a later record and miss an earlier one."""
        first = self._look()
        if not first:
            return []
        newest = max(self._key(place) for place in first.values())
        older = {name: place for name, place in self._look().items() if self._key(place) < newest}
        return sorted((first | older).values(), key=self._key)

    def _look(self) -> dict[str, SpoolPosition]:
        try:
            names = os.listdir(self._folder)
        except FileNotFoundError:
            return {}
        return {place.name: place for name in names if (place := position_of(name)) is not None}

    def _key(self, place: SpoolPosition) -> tuple[int, float, int, str]:
        """Records of this boot by the boot clock; those of earlier boots before them, by when they were written."""
        if place.boot == self._clock.boot_id[:16].lower():
            return (1, 0.0, place.since_boot_ns, place.name)
        try:
            written = (self._folder / place.name).lstat().st_mtime
        except FileNotFoundError:
            written = 0.0
        return (0, written, place.since_boot_ns, place.name)

    async def _import(self, places: list[SpoolPosition]) -> None:
        """Append all that can be read, then take the files away: the good ones are removed, the bad ones set aside."""
        self._lateness.begin()
        bad = await self._append(places)
        self._lateness.keep()
        self._take_away(places, bad)

    async def _append(self, places: list[SpoolPosition]) -> set[str]:
        """Those that could not be appended, by name."""
        read: dict[SpoolPosition, NewEvent] = {}
        bad: set[str] = set()
        for number, place in enumerate(places, 1):
            if number % GIVE_WAY == 0:
                await asyncio.sleep(0)
            try:
                event = self._read(place)
            except (HoldfastError, OSError) as error:
                event = self._reject(place, error)
                bad.add(place.name)
            if event is None:
                self.unlisted += 1
            else:
                read[place] = event
        read = self._once(read)
        try:
            await self._events.append(list(read.values()))
        except StoreError:
            raise
        except HoldfastError:
            bad |= await self._one_by_one(read)
        return bad

    def _once(self, read: dict[SpoolPosition, NewEvent]) -> dict[SpoolPosition, NewEvent]:
        """Remove the second of two events with the same key where the decoder says that such a pair is one event."""
        keys = Counter(event.dedup_key for event in read.values() if self._repeats(event))
        if not any(count > 1 for count in keys.values()):
            return read
        seen: set[str | None] = set()
        kept = {}
        for place, event in read.items():
            if self._repeats(event) and event.dedup_key in seen:
                self.repeated += 1
            else:
                seen.add(event.dedup_key)
                kept[place] = event
        return kept

    async def _one_by_one(self, read: dict[SpoolPosition, NewEvent]) -> set[str]:
        """One of them cannot be appended (a key used with another body): the others must not wait for it."""
        bad = set()
        for place, event in read.items():
            try:
                await self._events.append([event])
            except StoreError:
                raise
            except HoldfastError as error:
                if self._repeats(event) and isinstance(error, DedupConflict):
                    self.repeated += 1
                elif not await self._append_plain(place, error):
                    bad.add(place.name)
        return bad

    async def _append_plain(self, place: SpoolPosition, why: HoldfastError) -> bool:
        """Being late is ours to note, not part of the fact: without the mark it may be a repetition of the first."""
        try:
            plain = self._read(place, late=False)
            await self._events.append([plain] if plain is not None else [])
        except StoreError:
            raise
        except (HoldfastError, OSError):
            await self._events.append([self._reject(place, why)])
            return False
        return True

    def _take_away(self, places: list[SpoolPosition], bad: set[str]) -> None:
        """A rename, not a copy: at no moment is a bad record in neither place.

        The folder is not synced for those that are stored: should they come back, their ids are known.
        """
        kept, stuck = self._folder / "rejected", None
        for place in places:
            path = self._folder / place.name
            if place.name not in bad:
                path.unlink(missing_ok=True)
                continue
            try:
                kept.mkdir(mode=0o700, exist_ok=True)
                os.rename(path, kept / place.name)
                self.rejected += 1
            except FileNotFoundError:
                pass
            except OSError as error:
                stuck = error
        if bad:
            sync_folder(self._folder)
        self.imported += len(places)
        if stuck is not None:
            raise stuck

    def _read(self, place: SpoolPosition, late: bool | None = None) -> NewEvent | None:
        """Its event, which says so if it comes late: it is appended all the same."""
        header, body = read_record(self._folder / place.name)
        event = self._event_of(header, body, late=bool(late))
        if event is not None and late is None and self._lateness.is_late(place, event.stream):
            return self._event_of(header, body, late=True)
        return event

    def _event_of(self, header: dict[str, Any], body: bytes, late: bool) -> NewEvent | None:
        decoder = self._decoders.get(header["kind"])
        if decoder is None:
            raise BadInput(f"the spool record is of an unknown kind {short_repr(header['kind'])}")
        return decoder.decode(header, body, late=late)

    def _repeats(self, event: NewEvent) -> bool:
        return event.dedup_key is not None and any(one.repeats(event) for one in self._decoders.values())

    def _reject(self, place: SpoolPosition, error: HoldfastError | OSError) -> NewEvent:
        """Say as an event that contracts can ask for that something could not be imported."""
        told = error.message if isinstance(error, HoldfastError) else f"it cannot be read ({error.strerror})"
        log.warning("spool record %s cannot be imported: %s; it is kept in rejected/", place.name, told)
        return new_event(
            "error.error",
            {"message": told, "file": place.name, "raw": self._glimpse(place)},
            source="holdfast",
            properties={"severity": "error", "error_source": "spool", "error_code": "SPOOL_INVALID"},
            id="evt_" + place.name.replace("-", "")[:60].removesuffix(".evt"),
        )

    def _glimpse(self, place: SpoolPosition) -> str:
        """Its beginning, for people. What is in the file itself is kept as it is."""
        try:
            raw = read_raw(self._folder / place.name, RAW_MAX)
        except (BadInput, OSError):
            return ""
        return raw.decode("utf-8", "replace").replace("\x00", "\ufffd")


def spool_depth(folder: Path) -> int:
    """How many records wait to be imported."""
    try:
        return sum(1 for name in os.listdir(folder) if position_of(name) is not None)
    except FileNotFoundError:
        return 0
