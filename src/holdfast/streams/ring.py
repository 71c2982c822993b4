"""The newest events of a live view, encoded once for all clients.

A client holds its own position and takes what stands after it. Clients at the same position get the same bytes.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import NamedTuple

from holdfast.domain.event import Event

ENTRIES_MAX = 1000
BATCH_BYTES_MAX = 256 * 1024

Encode = Callable[[Event], bytes]
Wanted = Callable[[Event], bool]


class Entry(NamedTuple):
    """One event. `order` is its place in the ring, `id` the position that a client resumes from, `data` its JSON."""

    order: int
    id: int
    event: Event
    data: bytes


class Batch:
    """Consecutive entries, in the forms that clients receive."""

    def __init__(self, entries: Sequence[Entry], last: int) -> None:
        self.entries = entries
        self.last = last
        """The order of the last entry that was looked at, which a filter may have left out."""

    @cached_property
    def sse(self) -> bytes:
        """As server-sent events."""
        return b"".join(b"id: %d\ndata: %b\n\n" % (entry.id, entry.data) for entry in self.entries)

    @cached_property
    def messages(self) -> list[str]:
        """As WebSocket messages."""
        return [f'{{"event":{entry.data.decode()}}}' for entry in self.entries]


class Ring:
    """A bounded list of entries with consecutive `order`, and the clients that wait for more."""

    def __init__(self, last: int, bytes_max: int) -> None:
        """`last`: the order of the last event that is known, but not held."""
        self.last, self.bytes_max = last, bytes_max
        self._entries: deque[Entry] = deque()
        self._bytes = 0
        self._waiting: set[asyncio.Event] = set()
        self._joined: dict[tuple[int, Wanted | None], Batch] = {}

    @property
    def clients(self) -> int:
        return len(self._waiting)

    def join(self) -> asyncio.Event:
        """A signal that is set whenever something changed. It is the client's until it leaves."""
        signal = asyncio.Event()
        self._waiting.add(signal)
        return signal

    def leave(self, signal: asyncio.Event) -> None:
        self._waiting.discard(signal)

    def notify(self) -> None:
        for signal in self._waiting:
            signal.set()

    def add(self, entry: Entry) -> None:
        """Add an entry, and drop the oldest ones beyond the limits. The newest one is always kept."""
        self._joined.clear()
        self._entries.append(entry)
        self.last = entry.order
        self._bytes += len(entry.data)
        while len(self._entries) > 1 and (len(self._entries) > ENTRIES_MAX or self._bytes > self.bytes_max):
            self._bytes -= len(self._entries.popleft().data)

    def after(self, order: int, wanted: Wanted | None = None) -> Batch | None:
        """The entries after a position, cut at `BATCH_BYTES_MAX`; None if older ones are missing here."""
        if order >= self.last:
            return _NOTHING
        if not self._entries or order + 1 < self._entries[0].order:
            return None
        key = (order, wanted)
        batch = self._joined.get(key)
        if batch is None:
            batch = self._joined[key] = self._join(order, wanted)
        return batch

    def _join(self, order: int, wanted: Wanted | None) -> Batch:
        taken: list[Entry] = []
        size = 0
        for index in range(order + 1 - self._entries[0].order, len(self._entries)):
            entry = self._entries[index]
            order = entry.order
            if wanted is None or wanted(entry.event):
                taken.append(entry)
                size += len(entry.data)
                if size >= BATCH_BYTES_MAX:
                    break
        return Batch(taken, order)


_NOTHING = Batch((), 0)
