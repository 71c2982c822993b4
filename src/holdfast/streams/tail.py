"""Live tails of streams: one shared reader for each stream, whatever the number of clients."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from holdfast.domain.errors import Conflict, HoldfastError, NotFound, PositionPruned
from holdfast.domain.event import Event
from holdfast.domain.text import short_repr
from holdfast.store.roles.archives import Archives
from holdfast.store.roles.events import Events, StreamRow
from holdfast.store.roles.feed import Feed
from holdfast.streams.ring import Batch, Encode, Entry, Ring

PAGE = 200
RINGS_BYTES_MAX = 64 * 1024 * 1024
"""The memory of all rings together."""
HEADS_MAX = 500
"""How many streams one read asks for."""

LiveItem = Batch | None
"""What a client receives: events, or None for a heartbeat."""


class Tail:
    """One stream with clients. `ended`: its last event is `ring.last`, and no other can follow."""

    def __init__(self, stream: str, head: int, ended: bool) -> None:
        self.stream, self.ended = stream, ended
        self.ring = Ring(head, RINGS_BYTES_MAX)
        self.head = head
        self.beats = 0
        self.error: HoldfastError | None = None


class Tails:
    """The streams that have clients. `update` reads what is new in them; the clients wait meanwhile."""

    def __init__(self, events: Events, feed: Feed, archives: Archives, encode: Encode) -> None:
        self._events, self._feed, self._archives, self._encode = events, feed, archives, encode
        self._tails: dict[str, Tail] = {}
        self.stopping = False

    @property
    def clients(self) -> int:
        return sum(tail.ring.clients for tail in self._tails.values())

    async def check(self, stream: str, after: int | None, wait: bool) -> int:
        """Check a position before anything is sent. Returns it, or the one before the first stored event.

        `wait`: the stream need not exist yet.
        """
        head, _ = await self._head(stream)
        if head == 0 and not wait:
            raise NotFound(f"there is no stream {short_repr(stream)}; to wait for its first event, add wait=true")
        if after is None:
            return (await self._first_seq(stream, head)) - 1
        if after > head:
            raise _began_again(stream, after, head)
        if after < head:
            await self._read(stream, after, 1)
        return after

    async def follow(self, stream: str, after: int) -> AsyncGenerator[LiveItem]:
        """Every event after a position, in order and without a gap, then those to come, until the stream is closed.

        None is a heartbeat. Raises Conflict if the stream is removed and begins again.
        """
        tail = await self._open(stream)
        signal, beats = tail.ring.join(), tail.beats
        try:
            while not self.stopping:
                signal.clear()
                if tail.error is not None:
                    raise tail.error
                batch = tail.ring.after(after)
                if batch is None:
                    batch = await self._stored(stream, after)
                if batch.entries:
                    after = batch.last
                    yield batch
                elif tail.ended and after >= tail.ring.last:
                    return
                elif beats != tail.beats:
                    beats = tail.beats
                    yield None
                else:
                    await signal.wait()
        finally:
            tail.ring.leave(signal)
            if not tail.ring.clients and self._tails.get(stream) is tail:
                del self._tails[stream]

    async def update(self) -> bool:
        """Read what is new in every stream with clients. Whether there may be more."""
        more = False
        names = [name for name, tail in self._tails.items() if not tail.ended]
        for start in range(0, len(names), HEADS_MAX):
            part = names[start : start + HEADS_MAX]
            rows = await self._feed.heads(part)
            for name in part:
                tail = self._tails.get(name)  # its last client may have left
                if tail is not None:
                    more |= await self._advance(tail, rows.get(name))
        return more

    def beat(self) -> None:
        """Send a heartbeat to every client that has nothing else to receive."""
        for tail in self._tails.values():
            tail.beats += 1
            tail.ring.notify()

    def stop(self) -> None:
        """End all tails at once."""
        self.stopping = True
        for tail in self._tails.values():
            tail.ring.notify()

    async def _open(self, stream: str) -> Tail:
        tail = self._tails.get(stream)
        if tail is None:
            head, ended = await self._head(stream)
            tail = self._tails.setdefault(stream, Tail(stream, head, ended))
        return tail

    async def _head(self, stream: str) -> tuple[int, bool]:
        """The head of a stream and whether it is final. An event without a stream is a stream of one event."""
        row = (await self._feed.heads([stream])).get(stream)
        if row is not None:
            return row.head, row.closed_at_ms is not None
        event = await self._events.get(stream)
        return (1, True) if event is not None and event.stream == stream else (0, False)

    async def _stored(self, stream: str, after: int) -> Batch:
        """Events that are no longer in the ring, or were never in it."""
        events = await self._read(stream, after, PAGE)
        return Batch([self._entry(event) for event in events], events[-1].seq)

    async def _read(self, stream: str, after: int, limit: int) -> list[Event]:
        """The stored events after a position that is below the head."""
        events = await self._events.read(stream, after, limit)
        if not events or events[0].seq != after + 1:
            head, _ = await self._head(stream)
            archived = bool(await self._archives.holding(stream, after, 1))
            raise PositionPruned.at(stream, after, await self._first_seq(stream, head), archived)
        return events

    async def _first_seq(self, stream: str, head: int) -> int:
        """The first stored event, or the next one if none is stored. An event without a stream is the only one."""
        first = await self._events.first_seq(stream)
        return first if first is not None else 1 if head <= 1 else head + 1

    async def _advance(self, tail: Tail, row: StreamRow | None) -> bool:
        head = 0 if row is None else row.head
        if head < tail.ring.last:
            tail.error = _began_again(tail.stream, tail.ring.last, head)
            del self._tails[tail.stream]
            tail.ring.notify()
            return False
        if head > tail.ring.last:
            tail.ring.bytes_max = RINGS_BYTES_MAX // max(1, len(self._tails))
            for event in await self._events.read(tail.stream, tail.ring.last, PAGE):
                tail.ring.add(self._entry(event))
            tail.ring.notify()
        if row is not None and row.closed_at_ms is not None and tail.ring.last >= head:
            tail.ended = True
            tail.ring.notify()
        return tail.ring.last < head

    def _entry(self, event: Event) -> Entry:
        return Entry(event.seq, event.seq, event, self._encode(event))


def _began_again(stream: str, after: int, head: int) -> Conflict:
    return Conflict(
        f"after={after} is beyond the head of stream {short_repr(stream)}, which is {head}: the stream was removed by "
        "retention and began again; read it from after=0"
    )
