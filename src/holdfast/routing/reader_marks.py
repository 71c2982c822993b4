"""Marks streams with new events for the readers whose pattern matches them."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.domain.event import Event
from holdfast.domain.reader import Reader
from holdfast.store.roles.readers import NewEvents, Readers


class ReaderMarks:
    """The readers in force at one version of the contracts. Without readers, a batch of the router costs nothing."""

    def __init__(self, store: Readers) -> None:
        self._store = store
        self._readers: Sequence[Reader] = ()

    async def read(self) -> list[Reader]:
        return await self._store.all()

    def replace(self, readers: Sequence[Reader]) -> None:
        self._readers = readers

    async def mark(self, events: Sequence[Event]) -> None:
        """Mark the streams of these events. Called before they are routed, so that a crash only repeats it."""
        if self._readers and (new_events := find_new_events(self._readers, events)):
            await self._store.mark(new_events)


def find_new_events(readers: Sequence[Reader], events: Sequence[Event]) -> list[NewEvents]:
    """For each stream and each reader of it, the events of the stream. An event without a stream has no readers."""
    firsts: dict[str, Event] = {}
    heads: dict[str, int] = {}
    for event in events:
        if event.stream != event.id:
            first = firsts.setdefault(event.stream, event)
            if event.seq < first.seq:
                firsts[event.stream] = event
            heads[event.stream] = max(event.seq, heads.get(event.stream, 0))
    return [
        NewEvents(reader.name, stream, first.seq, heads[stream], first.accepted_at_ms)
        for stream, first in firsts.items()
        for reader in readers
        if reader.matches(stream)
    ]
