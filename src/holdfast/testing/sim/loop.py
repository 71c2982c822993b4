"""An event loop that owns time and order: timers fire at once, and chance picks what runs next.

Every handle knows, through its context, which life it belongs to. The handles of a life that ended are never run, as
if its process had been killed between two of its steps; those of a frozen one wait until it thaws.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import Context, ContextVar, copy_context
from random import Random
from typing import Any

STEPS_MAX = 400_000


class Stuck(Exception):
    """Nothing can ever happen again, or too much happens without an end."""


class Life:
    """What can die or freeze as one: everything that was begun in its context."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.dead = False
        self.frozen_until = 0.0
        self.held: list[asyncio.Handle] = []

    def context(self) -> Context:
        context = copy_context()
        context.run(LIFE.set, self)
        return context


LIFE: ContextVar[Life | None] = ContextVar("life", default=None)


class SimLoop(asyncio.BaseEventLoop):
    """`before_step` is called with the life whose step comes next, and may end it."""

    _ready: deque[asyncio.Handle]
    _scheduled: list[asyncio.TimerHandle]

    def __init__(self, chance: Random, *, shuffled: bool = True) -> None:
        super().__init__()
        self._chance, self._shuffled, self._now = chance, shuffled, 0.0
        self._clock_resolution = 1e-9
        self._began: list[asyncio.Task[Any]] = []
        self.before_step: Callable[[Life], None] = lambda life: None
        self.steps = 0
        self.errors: list[str] = []
        self.set_task_factory(self._make_task)
        self.set_exception_handler(self._note_error)

    def time(self) -> float:
        return self._now

    def freeze(self, life: Life, seconds: float) -> None:
        """The life stands still while time goes on for everyone else."""
        life.frozen_until = self._now + seconds
        self.call_at(life.frozen_until, self._thaw, life, context=Context())

    def run(self, main: Coroutine[Any, Any, Any]) -> None:
        """Run to the end of `main`, then drop whatever is left."""
        asyncio.set_event_loop(self)
        try:
            self.run_until_complete(main)
        finally:
            self._drop_tasks()
            asyncio.set_event_loop(None)
            self.close()

    def _run_once(self) -> None:
        handle = self._pick()
        if handle._cancelled:
            return
        life = handle._context.get(LIFE)  # type: ignore[attr-defined]
        if life is not None:
            if life.dead:
                return
            if life.frozen_until > self._now:
                life.held.append(handle)
                return
            self.before_step(life)
            if life.dead:
                return
        self.steps += 1
        if self.steps > STEPS_MAX:
            raise Stuck(f"{STEPS_MAX} steps and no end")
        handle._run()

    def _pick(self) -> asyncio.Handle:
        """The next handle to run; time jumps to the next timer when nothing else is left."""
        self._collect()
        while not self._ready:
            if not self._scheduled:
                raise Stuck("everybody waits, and no timer is set")
            self._now = max(self._now, self._scheduled[0].when())
            self._collect()
        if self._shuffled and len(self._ready) > 1:
            self._ready.rotate(-self._chance.randrange(len(self._ready)))
        return self._ready.popleft()

    def _collect(self) -> None:
        """Make the timers ready that are due, and forget those that were cancelled."""
        while self._scheduled and (self._scheduled[0].cancelled() or self._scheduled[0].when() <= self._now):
            handle = heapq.heappop(self._scheduled)
            handle._scheduled = False  # type: ignore[attr-defined]
            if not handle.cancelled():
                self._ready.append(handle)

    def _thaw(self, life: Life) -> None:
        if life.frozen_until <= self._now:
            self._ready.extend(life.held)
            life.held.clear()

    def _make_task(self, loop: asyncio.AbstractEventLoop, coro: Any, **options: Any) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.Task(coro, loop=loop, **options)
        self._began.append(task)  # kept to the end: what the collector does must not depend on its own timing
        return task

    def _drop_tasks(self) -> None:
        """What was killed is never resumed: close it quietly."""
        for task in self._began:
            if not task.done():
                task._log_destroy_pending = False  # type: ignore[attr-defined]
                with suppress(BaseException):
                    task.get_coro().close()
            elif not task.cancelled():
                task.exception()
        self._began.clear()

    def _note_error(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if not isinstance(error, Crash):
            self.errors.append(f"{context.get('message')}: {error!r}")

    def _process_events(self, event_list: Any) -> None:
        raise NotImplementedError("a simulation has no files to wait for")

    def _write_to_self(self) -> None:
        """Nobody else could be asleep: there are no threads."""


class Crash(BaseException):
    """The process ends here. No `except Exception` of the product may survive it."""
