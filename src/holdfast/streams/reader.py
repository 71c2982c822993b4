"""Reads streams in order inside an application, which commits the position in its own transaction."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial

from holdfast.domain.cursor import Cursor
from holdfast.domain.errors import PositionPruned, StoreError
from holdfast.domain.event import Event
from holdfast.domain.reader import Reader
from holdfast.ports import boot_ns, in_thread
from holdfast.store.open import open_store
from holdfast.store.roles.page import PAGE_BYTES_MAX
from holdfast.store.roles.readers import Progress, StreamLease
from holdfast.store.roles.store import Store
from holdfast.streams.cursors import ApplicationCursors
from holdfast.streams.sequence import describe_gap, unbroken

BATCH_MAX = 100
LEASE_MS = 60_000
EXTEND_S = LEASE_MS / 1000 / 4
POLL_S = 0.2
SEEN_S = 3600.0
UNMOVED_MS = 1000


class StreamReader:
    """An endless iterator over the events of all matching streams, each stream in order.

        reader = outbox.read("totals", "run:*")
        async for event in reader:
            with connection:                          # your transaction
                connection.execute("update totals …")
                reader.advance(connection, event)

    The position and your own writes are committed together, or not at all. An event whose position was not committed
    comes again. Several processes may run the same reader: each stream is read by one of them at a time, and `advance`
    raises Conflict in a process that lost its stream.
    """

    def __init__(self, url: str, cursors: ApplicationCursors, reader: Reader, poll_s: float = POLL_S) -> None:
        self._url, self._cursors, self._reader, self._poll_s = url, cursors, reader, poll_s

    def advance(self, connection: object, event: Event) -> Cursor:
        """Record in the caller's transaction that this event was read. Raises Conflict if another process did."""
        return self._cursors.advance(connection, self._reader.name, event.stream, event.seq, event.seq - 1)

    async def advance_async(self, connection: object, event: Event) -> Cursor:
        """The same on a connection that is awaited."""
        return await self._cursors.advance_async(connection, self._reader.name, event.stream, event.seq, event.seq - 1)

    def __aiter__(self) -> AsyncIterator[Event]:
        return self._iterate()

    async def _iterate(self) -> AsyncIterator[Event]:
        opening = partial(open_store, self._url, driver="sqlite3", own=False, create=False)
        store = await in_thread("files", opening)
        seen_s = _now_s()
        try:
            await self._register(store)
            while True:
                if _now_s() - seen_s >= SEEN_S:
                    seen_s = _now_s()
                    await self._register(store)
                for lease in await self._claim(store):
                    session = _Session(store, lease)
                    try:
                        async for event in session.events():
                            yield event
                    finally:
                        await session.end()
        finally:
            await store.close()

    async def _register(self, store: Store) -> None:
        await store.readers.register([self._reader])
        while await store.readers.survey(self._reader.name):
            pass

    async def _claim(self, store: Store) -> list[StreamLease]:
        """Lease one stream, or wait a moment. A look comes first, because a claim takes the write lock on SQLite."""
        name = self._reader.name
        if await store.readers.next_due([name]) == 0 and (leases := await store.readers.claim(name, 1, LEASE_MS)):
            return leases
        await asyncio.sleep(self._poll_s)
        await store.readers.reclaim()
        return []


class _Session:
    """One leased stream: a batch of its events."""

    def __init__(self, store: Store, lease: StreamLease) -> None:
        self._store, self._lease = store, lease
        self._extended_s = _now_s()

    async def events(self) -> AsyncIterator[Event]:
        stream, position = self._lease.stream, self._lease.position
        (found,) = await self._store.events.read_many([(stream, position)], BATCH_MAX, PAGE_BYTES_MAX)
        whole = found[: unbroken(position, found)]
        if not whole and self._lease.head > position:
            await self._raise_gap()
        for event in whole:
            yield event
            if _now_s() - self._extended_s >= EXTEND_S:
                self._extended_s = _now_s()
                await self._store.readers.extend([self._lease], LEASE_MS)

    async def end(self) -> None:
        """End the lease at the committed position. A stream in which nothing was committed comes again later."""
        cursor = await self._store.cursors.get(self._lease.reader, self._lease.stream)
        position = self._lease.position if cursor is None else cursor.position
        delay_ms = UNMOVED_MS if position == self._lease.position else 0
        await self._store.readers.settle([Progress(self._lease, position, self._lease.since_ms, delay_ms)])

    async def _raise_gap(self) -> None:
        stream, position = self._lease.stream, self._lease.position
        first = await self._store.events.first_seq(stream)
        if first is None or first > position + 1:
            raise PositionPruned.at(stream, position, self._lease.head + 1 if first is None else first)
        raise StoreError(describe_gap(stream, position, first))


def _now_s() -> float:
    return boot_ns() / 1e9
