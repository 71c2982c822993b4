"""A pool of connections. Functions ("works") run in transactions; a lost connection is replaced transparently."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import Any, TypeVar

from holdfast.domain.errors import StoreError, StoreFailed
from holdfast.ports import Probe
from holdfast.store.postgres.clock import ServerClock
from holdfast.store.postgres.errors import FAULTS, is_connection_lost, is_retryable, translate
from holdfast.store.postgres.hosts import Hosts
from holdfast.store.postgres.place import Place
from holdfast.store.postgres.pooled_connection import PooledConnection, Row

T = TypeVar("T")
Work = Callable[[PooledConnection], Awaitable[T]]

SIZE_MAX = 10
TRIES = 6
PAUSE_S = 0.02

# The statistics of a queue are always stale: a plan made while a table was empty must not scan it when it is full.
_PLANNING = "SET {0}enable_seqscan = off; SET {0}jit = off"
# A process that is stopped in the middle of a transaction loses it: its locks would block the others.
IDLE_MAX_MS = 10_000
_SETTINGS = f"{_PLANNING.format('LOCAL ')}; SET LOCAL idle_in_transaction_session_timeout = {IDLE_MAX_MS}"
# Claims and routing need no flush of their own: a later settle flushes them, and a crash only repeats them.
_BEGIN = {
    True: f"BEGIN ISOLATION LEVEL READ COMMITTED; {_SETTINGS}; SET LOCAL synchronous_commit = on",
    False: f"BEGIN ISOLATION LEVEL READ COMMITTED; {_SETTINGS}; SET LOCAL synchronous_commit = off",
}


class Pool:
    """At most `SIZE_MAX` connections, opened on demand. `prepare` runs once, on the first of them.

    Behind a pooler, each transaction may run on another server process: then no statement is kept prepared, and even a
    single read is a transaction.
    """

    def __init__(self, place: Place, prepare: Work[None], probe: Probe, clock: ServerClock) -> None:
        self.place, self._prepare, self._probe, self.clock = place, prepare, probe, clock
        self._hosts = Hosts(place.dsn, place.schema)
        self.pooled = False
        self._idle: list[PooledConnection] = []
        self._slots = asyncio.Semaphore(SIZE_MAX)
        self._first = asyncio.Lock()
        self._prepared = False
        self._closed = False
        self.pids: set[int] = set()
        self.failed: Callable[[StoreFailed], None] = lambda error: None
        """Called when the server reports damaged data."""

    async def run(self, work: Work[T], *, durable: bool = True, repeatable: bool = False) -> T:
        """Run a work in a transaction of its own; `durable`: return only when it is on disk.

        A work that was rolled back because of another transaction is retried. `repeatable`: the work is idempotent, so
        it is also retried when the connection was lost and it is unknown whether it was committed.
        """

        async def whole(connection: PooledConnection) -> T:
            async with transaction(connection, durable, self._probe):
                return await work(connection)

        return await self._try(whole, repeatable)

    async def single(self, work: Work[T]) -> T:
        """Run a work of one statement, which is a transaction by itself: one round trip. It must be repeatable."""
        return await self._try(partial(self._single, work), repeatable=True)

    async def single_once(self, work: Work[T]) -> T:
        """As `single`, for a work that must not be retried when it is unknown whether it was committed."""
        return await self._try(partial(self._single, work), repeatable=False)

    async def _single(self, work: Work[T], connection: PooledConnection) -> T:
        if not self.pooled:
            return await work(connection)
        async with transaction(connection, True, self._probe):
            return await work(connection)

    async def opened(self) -> None:
        """Wait for the first connection: from then on the database's clock and the presence of a pooler are known."""
        if not self._prepared:
            await self._try(_nothing, repeatable=True)

    async def rows(self, text: str, *values: object) -> list[Row]:
        """Run one reading statement."""
        return await self.single(lambda connection: connection.rows(text, *values))

    async def value(self, text: str, *values: object) -> Any:
        return await self.single(lambda connection: connection.value(text, *values))

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[PooledConnection]:
        """Lend a connection. One that broke, or whose state is not known, is discarded and not returned to the pool.

        A query that was cancelled may still run on the server. If it was a BEGIN, the driver does not know of the
        transaction yet, and what the next borrower writes would never be committed.
        """
        if self._closed:
            raise StoreError("this store is closed")
        async with self._slots:
            connection = await self._take()
            try:
                yield connection
            except Exception as error:
                if isinstance(error, TimeoutError):  # the driver's own way to cancel a query
                    self._discard(connection)
                raise
            except BaseException:
                self._discard(connection)
                raise
            finally:
                if connection.pid in self.pids:
                    self._give(connection)

    async def close(self) -> None:
        self._closed = True
        while self._idle:
            connection = self._idle.pop()
            self.pids.discard(connection.pid)
            try:
                await connection.close()
            except FAULTS:
                connection.drop()

    async def _try(self, work: Work[T], repeatable: bool) -> T:
        for attempt in range(1, TRIES + 1):
            try:
                async with self.connection() as connection:
                    return await work(connection)
            except FAULTS as error:
                again = is_retryable(error) or (repeatable and is_connection_lost(error))
                if not again or attempt == TRIES:
                    failure = translate(error)
                    if isinstance(failure, StoreFailed):
                        self.failed(failure)
                    raise failure from error
                await asyncio.sleep(PAUSE_S * attempt * attempt)
        raise AssertionError("the last try returns or raises")

    async def _take(self) -> PooledConnection:
        while self._idle:
            connection = self._idle.pop()
            if not connection.closed:
                return connection
            self.pids.discard(connection.pid)
        if not self._prepared:
            await self._prepare_once()
        connection = await self._hosts.connect(cached=not self.pooled)
        self.pids.add(connection.pid)
        try:
            if not self.pooled:
                await connection.script(_PLANNING.format(""))
            if self.clock.stale:
                asked_ms = self.clock.boot_ms()
                self.clock.learn((await connection.look()).now_ms, asked_ms)
        except BaseException:
            self._discard(connection)
            raise
        return connection

    async def _prepare_once(self) -> None:
        """On a connection without prepared statements, since it is not known yet whether there is a pooler."""
        async with self._first:
            if self._prepared:
                return
            connection = await self._hosts.connect(cached=False)
            try:
                asked_ms = self.clock.boot_ms()
                facts = await connection.look()
                self.clock.learn(facts.now_ms, asked_ms)
                await self._prepare(connection)
                self.pooled, self._prepared = facts.pooled, True
            finally:
                connection.drop()

    def _give(self, connection: PooledConnection) -> None:
        if connection.closed or self._closed or connection.raw.is_in_transaction():
            self._discard(connection)
        else:
            self._idle.append(connection)

    def _discard(self, connection: PooledConnection) -> None:
        self.pids.discard(connection.pid)
        connection.drop()


async def _nothing(connection: PooledConnection) -> None:
    pass


@asynccontextmanager
async def transaction(connection: PooledConnection, durable: bool, probe: Probe) -> AsyncIterator[None]:
    await begin(connection, durable)
    try:
        probe("begun")
        yield
        probe("before_commit")
    except BaseException:
        await undo(connection)
        raise
    await connection.raw.execute("COMMIT")
    probe("after_commit")


async def begin(connection: PooledConnection, durable: bool) -> None:
    await connection.raw.execute(_BEGIN[durable])


async def undo(connection: PooledConnection) -> None:
    """Roll back, unless the connection is closed already."""
    if connection.closed:
        return
    try:
        await connection.raw.execute("ROLLBACK")
    except FAULTS:
        connection.drop()


@contextmanager
def translated() -> Iterator[None]:
    """Raise the driver's errors of this block as Holdfast errors."""
    try:
        yield
    except FAULTS as error:
        raise translate(error) from error
