"""The one writer of a file: transactions queue here and share a commit, so that many callers share one fsync.

When a single caller waits it is served at once in its own thread; under load, whoever arrives while a commit is
under way forms the next batch. A work that fails takes nothing else with it: works only speak to the connection they
are given, so a batch in which one failed is undone and done again with a savepoint around each.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from holdfast.domain.errors import StoreBusy, StoreError, StoreFailed, StoreFull
from holdfast.ports import Executor, Probe
from holdfast.store.sqlite.connection import BUSY_TIMEOUT_MS, Connection

T = TypeVar("T")
Work = Callable[[Connection], T]

BATCH_MAX = 256


@dataclass(slots=True)
class _Item:
    work: Work[Any]
    durable: bool
    future: asyncio.Future[Any]
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
        self._synced = True
        self._failed: StoreFailed | None = None
        self._idle: asyncio.Future[None] | None = None
        self._changes = connection.total_changes()
        self.commits = 0
        """How many commits changed something."""

    async def run(self, work: Work[T], *, durable: bool = True) -> T:
        """Run a work in a transaction and return when it is committed; synced to disk unless not `durable`."""
        if self._failed is not None:
            raise self._failed
        if self._closed:
            raise StoreBusy("this store is closed; ask again when it is open")
        loop = asyncio.get_running_loop()
        item = _Item(work, durable, loop.create_future())
        self._waiting.append(item)
        if not self._busy:
            self._busy = True
            try:
                await asyncio.sleep(0)  # whoever is about to hand in work shares the commit
            except asyncio.CancelledError:
                item.future.cancel()
                loop.call_soon(self._next)
                raise
            self._next()
        return await item.future  # type: ignore[no-any-return]

    def peek(self, look: Callable[[Connection], T]) -> T | None:
        """Look at something on the write connection, if nobody is using it right now."""
        return None if self._busy or self._failed else look(self._connection)

    def fail(self, error: StoreFailed) -> None:
        """The disk failed or the file is damaged: nothing more is written on top of what may be lost."""
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
        """Commit what waits: inline if it is one work and the lock is free, otherwise in the writer's thread."""
        batch = [self._waiting.popleft() for _ in range(min(len(self._waiting), BATCH_MAX))]
        if len(batch) == 1 or self._executor.inline:
            try:
                self._commit(batch, wait=self._executor.inline)
            except _WouldWait:
                pass
            else:
                self._finish(batch)
                return
        task = asyncio.ensure_future(self._executor.submit(lambda: self._commit(batch, wait=True)))
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

    def _commit(self, batch: list[_Item], wait: bool) -> None:
        """One transaction. Errors of a work stay with it; an error of the commit belongs to all."""
        connection = self._connection
        try:
            durable = any(item.durable for item in batch)
            self._sync(durable)
            self._begin(wait)
            self._probe("begun")
            if not self._together(batch):
                self._undo()
                self._begin(wait=True)
                for item in batch:
                    self._guarded(item)
            if durable:
                self._before_sync()
            self._probe("before_commit")
            connection.run("COMMIT")
            changes = connection.total_changes()
            self.commits += changes != self._changes
            self._changes = changes
            self._probe("after_commit")
        except _WouldWait:
            raise
        except Exception as error:
            self._undo()
            if isinstance(error, StoreFailed):
                self._failed = error
            for item in batch:
                item.error = item.error or error

    def _together(self, batch: list[_Item]) -> bool:
        """All works of a batch as one, as they nearly always go. False: one of several failed, and must be found."""
        try:
            for item in batch:
                item.result = item.work(self._connection)
        except StoreFailed:
            raise
        except Exception:
            if len(batch) == 1:
                raise
            return False
        return True

    def _guarded(self, item: _Item) -> None:
        """One work that may fail alone."""
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
        """Undo one work. A full disk makes SQLite undo the whole transaction by itself: then it is the fault of all."""
        try:
            self._connection.run("ROLLBACK TO work")
        except StoreError:
            raise error from None

    def _begin(self, wait: bool) -> None:
        if self._failed is not None:
            raise self._failed
        if wait:
            self._connection.run("BEGIN IMMEDIATE")
            return
        self._connection.set_busy_timeout(0)
        try:
            self._connection.run("BEGIN IMMEDIATE")
        except StoreBusy:
            raise _WouldWait from None
        finally:
            self._connection.set_busy_timeout(BUSY_TIMEOUT_MS)

    def _undo(self) -> None:
        try:
            self._connection.run("ROLLBACK")
        except Exception as error:  # a failed COMMIT has often rolled back already
            if isinstance(error, StoreFailed):
                self._failed = error

    def _sync(self, durable: bool) -> None:
        """Claims and routing need no fsync of their own: the next durable commit carries them along."""
        if durable != self._synced:
            self._connection.run(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
            self._synced = durable


class _WouldWait(Exception):
    pass
