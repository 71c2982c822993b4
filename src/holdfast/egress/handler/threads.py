"""Threads for handlers that are plain functions, separate from all other threads of the process.

A thread cannot be stopped, so a function that never returns occupies its thread permanently. So that it cannot block
other handlers, each handler may always use one thread; only additional ones count towards a shared limit.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections import Counter, deque
from collections.abc import Callable
from queue import Empty, SimpleQueue

SHARED_MAX = 32
IDLE_S = 10.0

Job = Callable[[], None]


class HandlerThreads:
    """Runs functions in daemon threads. A function that waits for a thread has not begun."""

    def __init__(self, shared_max: int = SHARED_MAX) -> None:
        self._shared_max = shared_max
        self._running: Counter[str] = Counter()
        self._shared = 0
        self._waiting: deque[tuple[str, asyncio.Future[None]]] = deque()
        self._jobs: SimpleQueue[Job] = SimpleQueue()
        self._lock = threading.Lock()
        self._idle = 0

    async def run(
        self, name: str, function: Callable[[], object], begin: Callable[[], None], end: Callable[[], None]
    ) -> object:
        """Call a function in a thread as soon as its handler may use one.

        `begin` is called when the thread is assigned, `end` when the function has returned, even if the caller was
        cancelled.
        """
        await self._wait_for_thread(name)
        begin()
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[object] = loop.create_future()
        context = contextvars.copy_context()

        def job() -> None:
            value, error = None, None
            try:
                value = context.run(function)
            except BaseException as raised:  # SystemExit too: it must end only the attempt
                error = raised
            try:
                loop.call_soon_threadsafe(self._ended, name, answer, value, error, end)
            except RuntimeError:  # the event loop is closed: the process is ending
                return

        self._start(job)
        return await answer

    def is_full(self, name: str) -> bool:
        """Whether another call of this handler would have to wait."""
        return self._running[name] > 0 and self._shared >= self._shared_max

    async def _wait_for_thread(self, name: str) -> None:
        if not self._waiting and not self.is_full(name):
            self._take(name)
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append((name, turn))
        self._admit()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # admitted at the same time
                self._leave(name)
            raise

    def _take(self, name: str) -> None:
        self._shared += self._running[name] > 0
        self._running[name] += 1

    def _leave(self, name: str) -> None:
        self._running[name] -= 1
        self._shared -= self._running[name] > 0
        if not self._running[name]:
            del self._running[name]
        self._admit()

    def _admit(self) -> None:
        """Admit waiting calls that may begin, in the order of their arrival."""
        kept: deque[tuple[str, asyncio.Future[None]]] = deque()
        for name, turn in self._waiting:
            if turn.done():
                continue
            if self.is_full(name):
                kept.append((name, turn))
            else:
                self._take(name)
                turn.set_result(None)
        self._waiting = kept

    def _ended(
        self,
        name: str,
        answer: asyncio.Future[object],
        value: object,
        error: BaseException | None,
        end: Callable[[], None],
    ) -> None:
        end()
        self._leave(name)
        if answer.cancelled():
            return
        if error is None:
            answer.set_result(value)
        else:
            answer.set_exception(_as_exception(error))

    def _start(self, job: Job) -> None:
        with self._lock:
            start = self._idle == 0
            if not start:
                self._idle -= 1
        self._jobs.put(job)
        if start:
            threading.Thread(target=self._work, name="holdfast:handler", daemon=True).start()

    def _work(self) -> None:
        """The thread: run jobs until there was none for `IDLE_S`."""
        while True:
            try:
                job = self._jobs.get(timeout=IDLE_S)
            except Empty:
                with self._lock:
                    if self._idle == 0:  # `_start` has just assigned a job to this thread
                        continue
                    self._idle -= 1
                return
            job()
            del job
            with self._lock:
                self._idle += 1


class HandlerExit(Exception):
    """A handler raised `SystemExit`, `StopIteration` or another exception that a future cannot carry."""


def _as_exception(error: BaseException) -> Exception:
    """The error, wrapped if a future cannot carry it: StopIteration, or one that would end the event loop."""
    if isinstance(error, Exception) and not isinstance(error, StopIteration):
        return error
    exit = HandlerExit(f"the handler raised {type(error).__name__}: {error}".rstrip(": "))
    exit.__cause__ = error
    return exit
