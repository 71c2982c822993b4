"""The feed: a live view of all events in the order in which they become visible. A resume may repeat some."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass

from holdfast.domain.contract import matches_wildcard
from holdfast.domain.event import Event
from holdfast.store.roles.feed import Feed, FeedPosition
from holdfast.streams.ring import Batch, Encode, Entry, Ring, Wanted
from holdfast.streams.tail import PAGE, LiveItem

FEED_BYTES_MAX = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class FeedFilter:
    """Which events a client receives. Every given part must match; `*`, `?` and `[…]` are wildcards."""

    source: str | None = None
    type: str | None = None
    stream: str | None = None

    def __call__(self, event: Event) -> bool:
        return (
            (self.type is None or matches_wildcard(event.type, self.type))
            and (self.source is None or matches_wildcard(event.source, self.source))
            and (self.stream is None or matches_wildcard(event.stream, self.stream))
        )

    @property
    def is_empty(self) -> bool:
        return self.source is None and self.type is None and self.stream is None


class EventFeed:
    """All events that appear while there are clients. `update` reads them once for all clients."""

    def __init__(self, feed: Feed, encode: Encode) -> None:
        self._feed, self._encode = feed, encode
        self._ring: Ring | None = None
        self._position = FeedPosition(0)
        self._beats = 0
        self.stopping = False

    @property
    def clients(self) -> int:
        return 0 if self._ring is None else self._ring.clients

    async def start(self, after: int | None) -> FeedPosition:
        """The position of a client that resumes, or the present one."""
        return await self._feed.newest() if after is None else FeedPosition(after)

    async def follow(self, start: FeedPosition, filter: FeedFilter) -> AsyncGenerator[LiveItem]:
        """Events that become visible after a position, each once. None is a heartbeat."""
        ring = await self._open()
        signal, beats, order = ring.join(), self._beats, ring.last
        wanted: Wanted | None = None if filter.is_empty else filter
        read, stored, unread = start, True, wanted
        low = start.low
        try:
            while not self.stopping:
                signal.clear()
                if stored:  # behind the ring: read what is stored
                    batch, read, stored = await self._stored(read, wanted)
                    unread = _Unread(read, wanted)
                else:
                    found = ring.after(order, unread)
                    if found is None:
                        read, order, stored = FeedPosition(low), ring.last, True
                        continue
                    batch, order = found, max(order, found.last)
                if batch.entries:
                    low = batch.entries[-1].id
                    yield batch
                elif not stored and order >= ring.last:
                    if isinstance(unread, _Unread) and self._position.low >= unread.newest:
                        unread = wanted  # nothing that was read can come again; clients share batches from now on
                    if beats != self._beats:
                        beats = self._beats
                        yield None
                    else:
                        await signal.wait()
        finally:
            ring.leave(signal)
            if not ring.clients:
                self._ring = None

    async def update(self) -> bool:
        """Read what became visible. Whether there may be more."""
        if self._ring is None:
            return False
        ring = self._ring
        page = await self._feed.visible(self._position, PAGE)
        self._position = page.position
        for event in page.events:
            ring.add(Entry(ring.last + 1, min(event.n, page.position.low), event, self._encode(event)))
        if page.events:
            ring.notify()
        return len(page.events) == PAGE

    def beat(self) -> None:
        self._beats += 1
        if self._ring is not None:
            self._ring.notify()

    def stop(self) -> None:
        self.stopping = True
        if self._ring is not None:
            self._ring.notify()

    async def _open(self) -> Ring:
        if self._ring is None:
            newest = await self._feed.newest()
            if self._ring is None:
                self._position, self._ring = newest, Ring(0, FEED_BYTES_MAX)
        return self._ring

    async def _stored(self, position: FeedPosition, wanted: Wanted | None) -> tuple[Batch, FeedPosition, bool]:
        """A page of stored events, the position after it, and whether there may be more."""
        page = await self._feed.visible(position, PAGE)
        entries = [
            Entry(0, min(event.n, page.position.low), event, self._encode(event))
            for event in page.events
            if wanted is None or wanted(event)
        ]
        return Batch(entries, 0), page.position, bool(page.events)


class _Unread:
    """Leaves out what a client has read from the store: the ring may hold it too."""

    def __init__(self, read: FeedPosition, wanted: Wanted | None) -> None:
        self._read, self._wanted = read, wanted
        self.newest = max(read.low, *read.seen) if read.seen else read.low

    def __call__(self, event: Event) -> bool:
        if event.n <= self._read.low or event.n in self._read.seen:
            return False
        return self._wanted is None or self._wanted(event)
