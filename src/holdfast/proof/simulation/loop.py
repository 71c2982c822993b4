"""An event loop with virtual time: timers need no waiting, and a random generator picks the next step.

Each step belongs to a life (a simulated process) through its context. Steps of a dead life never run, as if its process
had been killed between two steps; those of a frozen life wait until it thaws.
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
    """No step can ever run again, or the steps do not end."""


class Life:
    """A simulated process: all steps started in its context die or freeze together."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.dead = False
        self.frozen_until = 0.0
        self.held: list[Step] = []

    def context(self) -> Context:
        context = copy_context()
        context.run(LIFE.set, self)
        return context


LIFE: ContextVar[Life | None] = ContextVar("life", default=None)


class Step:
    """A callback to run: an asyncio handle without the parts not needed here."""

    __slots__ = ("_when_s", "args", "callback", "context")

    def __init__(self, callback: Callable[..., object], args: Any, context: Context | None, when_s: float) -> None:
        self.callback: Callable[..., object] | None = callback
        self.args, self._when_s = args, when_s
        self.context = copy_context() if context is None else context  # not `context or …`: an empty context is false

    def cancel(self) -> None:
        self.callback = None

    def cancelled(self) -> bool:
        return self.callback is None

    def when(self) -> float:
        return self._when_s


class _Task(asyncio.Task[Any]):
    """Hashes by its number, not by its address, which differs from run to run."""

    def __init__(self, number: int, coro: Any, **options: Any) -> None:
        self._number = number  # first: asyncio adds every task to a set when it is created
        super().__init__(coro, **options)

    def __hash__(self) -> int:
        return self._number


class SimLoop(asyncio.BaseEventLoop):
    """`before_step` is called with the life of the next step, and may kill it."""

    _stopping: bool

    def __init__(self, chance: Random, *, shuffled: bool = True) -> None:
        super().__init__()
        self._chance, self._shuffled, self._now = chance, shuffled, 0.0
        self._clock_resolution = 1e-9
        self._steps: deque[Step] = deque()
        self._timers: list[tuple[float, int, Step]] = []
        self._timers_set = 0
        self._began: list[asyncio.Task[Any]] = []
        self.before_step: Callable[[Life], None] = lambda life: None
        self.steps = 0
        self.errors: list[str] = []
        self.set_task_factory(self._make_task)
        self.set_exception_handler(self._note_error)

    def call_soon(self, callback: Any, *args: Any, context: Context | None = None) -> Any:  # type: ignore[override]
        step = Step(callback, args, context, self._now)
        self._steps.append(step)
        return step

    call_soon_threadsafe = call_soon  # type: ignore[assignment]  # there are no threads

    def call_at(self, when: float, callback: Any, *args: Any, context: Context | None = None) -> Any:  # type: ignore[override]
        step = Step(callback, args, context, when)
        self._timers_set += 1
        heapq.heappush(self._timers, (when, self._timers_set, step))
        return step

    def call_later(self, delay: float, callback: Any, *args: Any, context: Context | None = None) -> Any:  # type: ignore[override]
        return self.call_at(self._now + delay, callback, *args, context=context)

    def time(self) -> float:
        return self._now

    def freeze(self, life: Life, seconds: float) -> None:
        """Stop the steps of a life while time continues for the others."""
        life.frozen_until = self._now + seconds
        self.call_at(life.frozen_until, self._thaw, life, context=Context())

    def run(self, main: Coroutine[Any, Any, Any]) -> None:
        """Run until `main` ends, then drop the remaining steps."""
        asyncio.set_event_loop(self)
        try:
            self.run_until_complete(main)
        finally:
            self._drop_tasks()
            asyncio.set_event_loop(None)
            self.close()

    def _run_once(self) -> None:
        """Run all steps until the loop is stopped."""
        while not self._stopping:
            step = self._pick()
            if step.callback is None:
                continue
            life = step.context.get(LIFE)
            if life is not None:
                if life.dead:
                    continue
                if life.frozen_until > self._now:
                    life.held.append(step)
                    continue
                self.before_step(life)
                if life.dead:
                    continue  # type: ignore[unreachable]  # before_step may have killed it
            self.steps += 1
            if self.steps > STEPS_MAX:
                raise Stuck(f"no end after {STEPS_MAX} steps")
            try:
                step.context.run(step.callback, *step.args)
            except (SystemExit, KeyboardInterrupt):
                raise
            except BaseException as error:
                self.call_exception_handler({"message": "a step failed", "exception": error})

    def _pick(self) -> Step:
        """The next step to run; time jumps to the next timer if no step is ready."""
        steps, timers = self._steps, self._timers
        while True:
            while timers and (timers[0][0] <= self._now or timers[0][2].callback is None):
                step = heapq.heappop(timers)[2]
                if step.callback is not None:
                    steps.append(step)
            if steps:
                break
            if not timers:
                raise Stuck("no step is ready, and no timer is set")
            self._now = timers[0][0]
        if self._shuffled and len(steps) > 1:
            steps.rotate(-int(self._chance.random() * len(steps)))
        return steps.popleft()

    def _thaw(self, life: Life) -> None:
        if life.frozen_until <= self._now:
            self._steps.extend(life.held)
            life.held.clear()

    def _make_task(self, loop: asyncio.AbstractEventLoop, coro: Any, **options: Any) -> asyncio.Task[Any]:
        task = _Task(len(self._began), coro, loop=loop, **options)
        self._began.append(task)  # kept to the end: garbage collection must not affect the order
        return task

    def _drop_tasks(self) -> None:
        """Close the coroutines of unfinished tasks without warnings."""
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
        raise NotImplementedError("a simulation waits for no files")

    def _write_to_self(self) -> None:
        """Not needed: there are no threads."""


class Crash(BaseException):
    """The process ends here. A BaseException, so that no `except Exception` of the product catches it."""
