"""The one writer of a file: transactions queue here and share a commit, so that many callers share one fsync.

The works that arrive during a commit form the next batch. They run in the event loop's thread and only the commit, with
its fsync, in the writer's: while the event loop is busy, every statement in another thread waits for the interpreter's
lock. A single work is committed in the event loop's thread as well, and a heavy one runs wholly in the writer's. A work
that fails affects no other: works use only the connection they are given, so a batch in which one failed is rolled back
and repeated with a savepoint around each.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial
from itertools import groupby
from typing import Any, Generic, TypeVar

from holdfast.domain.errors import StoreBusy, StoreError, StoreFailed, StoreFull
from holdfast.ports import Executor, Probe
from holdfast.store.sqlite.connection import BUSY_TIMEOUT_MS, Connection

T = TypeVar("T")
Work = Callable[[Connection], T]

BATCH_MAX = 256
HEAVY_ROWS = 1000
"""A work that writes more rows than this is heavy."""


class BatchableWork(Generic[T]):
    """A work that is combined with adjacent works of its class in a batch, to use fewer statements."""

    def __call__(self, connection: Connection) -> T:
        return self.all_of(connection, [self])[0]

    @classmethod
    def all_of(cls, connection: Connection, works: Sequence[Any]) -> list[T]:
        """Do all works. Returns their results in the same order."""
        raise NotImplementedError


class _State(Enum):
    """How far a batch has come in the event loop's thread."""

    CLOSED = auto()
    ONE_FAILED = auto()
    OPEN = auto()


@dataclass(slots=True)
class _Item:
    work: Work[Any]
    durable: bool
    heavy: bool
    future: asyncio.Future[Any]
    alone: bool = False
    result: Any = None
    error: BaseException | None = None


class Writer:
    """Runs works in write transactions, one after another, several to a commit."""

    def __init__(
        self,
        connection: Connection,
        executor: Executor,
        probe: Probe,
        on_full: Callable[[], None] = lambda: None,
        before_sync: Callable[[], None] = lambda: None,
        on_failure: Callable[[StoreFailed], None] = lambda error: None,
    ) -> None:
        self._on_failure = on_failure
        self._connection, self._executor, self._probe, self._on_full = connection, executor, probe, on_full
        self._before_sync = before_sync
        self._waiting: deque[_Item] = deque()
        self._busy = self._closed = False
        self._synced = self._waits = True
        self._in_transaction = False
        self._failed: StoreFailed | None = None
        self._idle: asyncio.Future[None] | None = None
        self._changes = connection.total_changes()
        self.commits = 0
        """How many commits changed something."""

    async def run(self, work: Work[T], *, durable: bool = True, heavy: bool = False) -> T:
        """Run a work in a transaction and return when it is committed; synced to disk unless not `durable`.

        `heavy`: it may take longer than the event loop should wait for it.
        """
        result: T = await self._queue(_Item(work, durable, heavy, asyncio.get_running_loop().create_future()))
        return result

    async def alone(self, work: Callable[[], T]) -> T:
        """Run a work in the writer's thread while this process has no transaction open. It must not write."""
        future = asyncio.get_running_loop().create_future()
        result: T = await self._queue(_Item(lambda connection: work(), False, True, future, alone=True))
        return result

    async def _queue(self, item: _Item) -> Any:
        if self._failed is not None:
            raise self._failed
        if self._closed:
            raise StoreBusy("this store is closed")
        self._waiting.append(item)
        if not self._busy:
            self._busy = True
            try:
                await asyncio.sleep(0)  # works that are about to be queued share the commit
            except asyncio.CancelledError:
                item.future.cancel()
                asyncio.get_running_loop().call_soon(self._next)
                raise
            self._next()
        return await item.future

    def peek(self, read: Callable[[Connection], T]) -> T | None:
        """Read on the write connection if it is idle; None if it is in use."""
        return None if self._busy or self._failed else read(self._connection)

    def fail(self, error: StoreFailed) -> None:
        """Stop all writes: the disk failed or the file is damaged, and earlier writes may be lost."""
        if self._failed is None:
            self._failed = error
            self._on_failure(error)

    async def close(self) -> None:
        while self._busy:
            self._idle = asyncio.get_running_loop().create_future()
            await self._idle
        self._closed = True
        self._executor.close()
        self._connection.close()

    def _next(self) -> None:
        """Do the queued works in this thread, and commit in the writer's thread if it is more than one work.

        If another process holds the lock, everything is left to the writer's thread, which can wait for it.
        """
        batch = self._take()
        here, state = self._executor.inline, _State.CLOSED
        if (here or not any(item.heavy for item in batch)) and not batch[0].alone:
            state = self._open(batch, wait=here)
        if state is _State.OPEN and (here or len(batch) == 1):
            self._commit(batch)
            self._finish(batch)
            return
        task = asyncio.ensure_future(self._executor.submit(partial(self._complete, batch, state)))
        task.add_done_callback(lambda done: self._after_thread(batch, done))

    def _after_thread(self, batch: list[_Item], done: asyncio.Future[None]) -> None:
        error = None if done.cancelled() else done.exception()
        if error is not None or done.cancelled():
            for item in batch:
                item.error = item.error or error or asyncio.CancelledError()
        self._finish(batch)

    def _finish(self, batch: list[_Item]) -> None:
        if any(isinstance(item.error, StoreFull) for item in batch):
            self._on_full()
        for item in batch:
            if isinstance(item.error, StoreFailed):
                self._on_failure(item.error)
                break
        for item in batch:
            if item.future.cancelled():
                continue
            if item.error is not None:
                item.future.set_exception(item.error)
            else:
                item.future.set_result(item.result)
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._next)
            return
        self._busy = False
        if self._idle is not None and not self._idle.done():
            self._idle.set_result(None)

    def _take(self) -> list[_Item]:
        """The works of the next transaction; a work marked `alone` comes by itself."""
        batch = [self._waiting.popleft()]
        while not batch[0].alone and self._waiting and not self._waiting[0].alone and len(batch) < BATCH_MAX:
            batch.append(self._waiting.popleft())
        return batch

    def _complete(self, batch: list[_Item], state: _State) -> None:
        """In the writer's thread: do the rest."""
        if batch[0].alone:
            self._guarded_alone(batch[0])
            return
        if state is not _State.OPEN:
            self._open(batch, wait=True, together=state is not _State.ONE_FAILED)
        self._commit(batch)

    def _open(self, batch: list[_Item], wait: bool, together: bool = True) -> _State:
        """Begin a transaction and do the works. Errors of a work stay with it. With `wait`, always returns OPEN."""
        try:
            self._sync(any(item.durable for item in batch))
            if not self._begin(wait):
                return _State.CLOSED
            self._probe("begun")
            if together and not self._together(batch):
                self._undo()
                if not wait:
                    return _State.ONE_FAILED
                self._begin(wait)
                together = False
            if not together:
                for item in batch:
                    self._guarded(item)
        except Exception as error:
            self._fail_all(batch, error)
        return _State.OPEN

    def _commit(self, batch: list[_Item]) -> None:
        """Commit the transaction, unless it failed already. An error of the commit fails all works."""
        if not self._in_transaction:
            return
        try:
            if any(item.durable for item in batch):
                self._before_sync()
            self._probe("before_commit")
            self._connection.run("COMMIT")
            self._in_transaction = False
            changes = self._connection.total_changes()
            self.commits += changes != self._changes
            self._changes = changes
            self._probe("after_commit")
        except Exception as error:
            self._fail_all(batch, error)

    def _fail_all(self, batch: list[_Item], error: Exception) -> None:
        self._undo()
        if isinstance(error, StoreFailed):
            self._failed = error
        for item in batch:
            item.error = item.error or error

    def _together(self, batch: list[_Item]) -> bool:
        """Run all works without savepoints, which nearly always succeeds. False: one of several works failed."""
        if len(batch) == 1:
            batch[0].result = batch[0].work(self._connection)
            return True
        try:
            for kind, group in groupby(batch, lambda item: type(item.work)):
                items = list(group)
                if issubclass(kind, BatchableWork):
                    results = kind.all_of(self._connection, [item.work for item in items])
                    for item, result in zip(items, results, strict=True):
                        item.result = result
                else:
                    for item in items:
                        item.result = item.work(self._connection)
        except StoreFailed:
            raise
        except Exception:
            return False
        return True

    def _guarded_alone(self, item: _Item) -> None:
        try:
            item.result = item.work(self._connection)
        except Exception as error:
            item.error = error

    def _guarded(self, item: _Item) -> None:
        """Run one work in a savepoint, so that it can fail alone."""
        self._connection.run("SAVEPOINT work")
        try:
            item.result = item.work(self._connection)
        except StoreFailed:
            raise
        except Exception as error:
            item.error = error
            self._forget(error)
        self._connection.run("RELEASE work")

    def _forget(self, error: Exception) -> None:
        """Undo one work. On a full disk SQLite rolls back the whole transaction by itself: then all works fail."""
        try:
            self._connection.run("ROLLBACK TO work")
        except StoreError:
            raise error from None

    def _begin(self, wait: bool) -> bool:
        """Begin a transaction. False, only without `wait`: another process has the lock."""
        if self._failed is not None:
            raise self._failed
        if wait != self._waits:
            self._connection.set_busy_timeout(BUSY_TIMEOUT_MS if wait else 0)
            self._waits = wait
        try:
            self._connection.run("BEGIN IMMEDIATE")
        except StoreBusy:
            if wait:
                raise
            return False
        self._in_transaction = True
        return True

    def _undo(self) -> None:
        self._in_transaction = False
        try:
            self._connection.run("ROLLBACK")
        except Exception as error:  # a failed COMMIT has often rolled back already
            if isinstance(error, StoreFailed):
                self._failed = error

    def _sync(self, durable: bool) -> None:
        """Claims and routing need no fsync of their own: the next durable commit syncs them too."""
        if durable != self._synced:
            self._connection.run(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
            self._synced = durable
