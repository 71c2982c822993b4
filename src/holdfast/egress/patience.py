"""How long a receiver may take: one look at all that wait, many times a second, not two timers for each request.

with patience.begin(25.0, 15.0) as wait:
    head = await ...
    wait.heard()
"""

from __future__ import annotations

import asyncio
from types import TracebackType

LOOK_S = 0.05


class OutOfPatienceError(TimeoutError):
    """It took too long: in all, or (`silent`) until the next sign of life."""

    def __init__(self, silent: bool) -> None:
        super().__init__()
        self.silent = silent


class Patience:
    """Waits that have an end. Late by a twentieth of a second at most."""

    def __init__(self) -> None:
        self._waits: set[Wait] = set()
        self._look: asyncio.TimerHandle | None = None

    def begin(self, total_s: float, silence_s: float) -> Wait:
        return Wait(self, total_s, silence_s)

    def add(self, wait: Wait, loop: asyncio.AbstractEventLoop) -> None:
        self._waits.add(wait)
        if self._look is None:
            self._look = loop.call_later(LOOK_S, self._look_at_all, loop)

    def remove(self, wait: Wait) -> None:
        self._waits.discard(wait)

    def _look_at_all(self, loop: asyncio.AbstractEventLoop) -> None:
        now_s = loop.time()
        for wait in self._waits:
            wait.look(now_s)
        self._look = loop.call_later(LOOK_S, self._look_at_all, loop) if self._waits else None


class Wait:
    """Around what may not take for ever: it is cancelled when its time is over, and ends as `OutOfPatienceError`."""

    __slots__ = ("_cancels", "_heard_s", "_late", "_loop", "_over_s", "_patience", "_silence_s", "_task", "_total_s")

    def __init__(self, patience: Patience, total_s: float, silence_s: float) -> None:
        self._patience, self._total_s, self._silence_s = patience, total_s, silence_s
        self._late: OutOfPatienceError | None = None

    def __enter__(self) -> Wait:
        task = asyncio.current_task()
        assert task is not None, "only a task can wait"
        self._task, self._cancels, self._loop = task, task.cancelling(), task.get_loop()
        self._heard_s = self._loop.time()
        self._over_s = self._heard_s + self._total_s
        self._patience.add(self, self._loop)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._patience.remove(self)
        # Who else wants the task to end has asked for it too, and is not to be answered with our own error.
        if self._late is not None and self._task.uncancel() <= self._cancels and kind is asyncio.CancelledError:
            raise self._late from error

    def heard(self, in_s: float = 0.0) -> None:
        """A sign of life: the next silence begins now, or in so many seconds."""
        self._heard_s = self._loop.time() + in_s

    def look(self, now_s: float) -> None:
        """End it if its time is over."""
        silent = now_s >= self._heard_s + self._silence_s
        if self._late is None and (silent or now_s >= self._over_s):
            self._late = OutOfPatienceError(silent and now_s < self._over_s)
            self._task.cancel()
