"""Connections, shared: works run in transactions, and a lost connection is replaced without anybody noticing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import Any, TypeVar

from holdfast.domain.errors import StoreError, StoreFailed
from holdfast.ports import Probe
from holdfast.store.postgres.clock import ServerClock
from holdfast.store.postgres.errors import FAULTS, is_again, is_lost, translate
from holdfast.store.postgres.place import Place
from holdfast.store.postgres.pooled_connection import PooledConnection, Row

T = TypeVar("T")
Work = Callable[[PooledConnection], Awaitable[T]]

SIZE_MAX = 10
TRIES = 6
PAUSE_S = 0.02

# A queue's statistics are stale by nature: a plan made while a table was empty must not scan it when it is not.
_PLANNING = "SET {0}enable_seqscan = off; SET {0}jit = off"
# And whoever stands still in the middle of a transaction loses it: its locks would hold everybody up.
IDLE_MAX_MS = 10_000
_SETTINGS = f"{_PLANNING.format('LOCAL ')}; SET LOCAL idle_in_transaction_session_timeout = {IDLE_MAX_MS}"
# Claims and routing need no flush of their own: a later settle's flush carries them, and a crash only repeats them.
_BEGIN = {
    True: f"BEGIN ISOLATION LEVEL READ COMMITTED; {_SETTINGS}; SET LOCAL synchronous_commit = on",
    False: f"BEGIN ISOLATION LEVEL READ COMMITTED; {_SETTINGS}; SET LOCAL synchronous_commit = off",
}


class Pool:
    """A bounded number of connections, made when they are needed. `prepare` runs once, on the first of them.

    Behind a pooler, each transaction may run on another server process: then no statement is kept prepared, and even a
    look is a transaction.
    """

    def __init__(self, place: Place, prepare: Work[None], probe: Probe, clock: ServerClock) -> None:
        self.place, self._prepare, self._probe, self.clock = place, prepare, probe, clock
        self.pooled = False
        self._idle: list[PooledConnection] = []
        self._slots = asyncio.Semaphore(SIZE_MAX)
        self._first = asyncio.Lock()
        self._prepared = False
        self._closed = False
        self.pids: set[int] = set()
        self.failed: Callable[[StoreFailed], None] = lambda error: None
        """Called when the server says that its data is damaged."""

    async def run(self, work: Work[T], *, durable: bool = True, repeatable: bool = False) -> T:
        """Run a work in a transaction of its own; `durable`: return only when it is on disk.

        What another transaction undid is done again. `repeatable` says that doing it twice is doing it once: then it is
        also done again when the connection was lost and nobody knows whether it was committed.
        """

        async def whole(session: PooledConnection) -> T:
            async with transaction(session, durable, self._probe):
                return await work(session)

        return await self._try(whole, repeatable)

    async def alone(self, work: Work[T]) -> T:
        """Run a work of one statement, which is a transaction by itself: one round trip. It must be repeatable."""
        return await self._try(partial(self._single, work), repeatable=True)

    async def once(self, work: Work[T]) -> T:
        """As `alone`, for a work that must not be repeated when nobody knows whether it was committed."""
        return await self._try(partial(self._single, work), repeatable=False)

    async def _single(self, work: Work[T], session: PooledConnection) -> T:
        if not self.pooled:
            return await work(session)
        async with transaction(session, True, self._probe):
            return await work(session)

    async def opened(self) -> None:
        """Once it returns there has been a connection: we know the database's clock, and whether a pooler is there."""
        if not self._prepared:
            await self._try(_nothing, repeatable=True)

    async def rows(self, text: str, *values: Any) -> list[Row]:
        """Look at something."""
        return await self.alone(lambda session: session.rows(text, *values))

    async def value(self, text: str, *values: Any) -> Any:
        return await self.alone(lambda session: session.value(text, *values))

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[PooledConnection]:
        """A connection for a while. One that broke meanwhile is thrown away, not given to the next."""
        if self._closed:
            raise StoreError("this store is closed")
        async with self._slots:
            session = await self._take()
            try:
                yield session
            except BaseException:
                # Whatever state it is in (an open transaction, a cancelled query): a fresh one is certain.
                if session.closed or session.raw.is_in_transaction():
                    self._discard(session)
                raise
            finally:
                if session.pid in self.pids:
                    self._give(session)

    async def close(self) -> None:
        self._closed = True
        while self._idle:
            session = self._idle.pop()
            self.pids.discard(session.pid)
            try:
                await session.close()
            except FAULTS:
                session.drop()

    async def _try(self, work: Work[T], repeatable: bool) -> T:
        for attempt in range(1, TRIES + 1):
            try:
                async with self.connection() as session:
                    return await work(session)
            except FAULTS as error:
                again = is_again(error) or (repeatable and is_lost(error))
                if not again or attempt == TRIES:
                    failure = translate(error)
                    if isinstance(failure, StoreFailed):
                        self.failed(failure)
                    raise failure from error
                await asyncio.sleep(PAUSE_S * attempt * attempt)
        raise AssertionError("the last try returns or raises")

    async def _take(self) -> PooledConnection:
        while self._idle:
            session = self._idle.pop()
            if not session.closed:
                return session
            self.pids.discard(session.pid)
        if not self._prepared:
            await self._prepare_once()
        session = await PooledConnection.connect(self.place.dsn, self.place.schema, cached=not self.pooled)
        self.pids.add(session.pid)
        try:
            if not self.pooled:
                await session.script(_PLANNING.format(""))
            if self.clock.stale:
                asked_ms = self.clock.boot_ms()
                self.clock.learn((await session.look()).now_ms, asked_ms)
        except BaseException:
            self._discard(session)
            raise
        return session

    async def _prepare_once(self) -> None:
        """On a connection that keeps nothing, since what stands between us and the database is not known yet."""
        async with self._first:
            if self._prepared:
                return
            session = await PooledConnection.connect(self.place.dsn, self.place.schema, cached=False)
            try:
                asked_ms = self.clock.boot_ms()
                facts = await session.look()
                self.clock.learn(facts.now_ms, asked_ms)
                await self._prepare(session)
                self.pooled, self._prepared = facts.pooled, True
            finally:
                session.drop()

    def _give(self, session: PooledConnection) -> None:
        if session.closed or self._closed:
            self._discard(session)
        else:
            self._idle.append(session)

    def _discard(self, session: PooledConnection) -> None:
        self.pids.discard(session.pid)
        session.drop()


async def _nothing(session: PooledConnection) -> None:
    pass


@asynccontextmanager
async def transaction(session: PooledConnection, durable: bool, probe: Probe) -> AsyncIterator[None]:
    await begin(session, durable)
    try:
        probe("begun")
        yield
        probe("before_commit")
    except BaseException:
        await undo(session)
        raise
    await session.raw.execute("COMMIT")
    probe("after_commit")


async def begin(session: PooledConnection, durable: bool) -> None:
    await session.raw.execute(_BEGIN[durable])


async def undo(session: PooledConnection) -> None:
    """Roll back, if there is still somebody to tell."""
    if session.closed:
        return
    try:
        await session.raw.execute("ROLLBACK")
    except FAULTS:
        session.drop()


@contextmanager
def translated() -> Iterator[None]:
    """The driver's errors leave this block as ours."""
    try:
        yield
    except FAULTS as error:
        raise translate(error) from error
