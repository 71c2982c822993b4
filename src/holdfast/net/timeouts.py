"""Time limits of requests. One timer checks all of them, instead of two timers per request.

with timeouts.start(total_s=25.0, silence_s=15.0) as timeout:
    head = await ...
    timeout.restart_silence()
"""

from __future__ import annotations

import asyncio
from types import TracebackType

CHECK_EVERY_S = 0.05


class TimedOut(TimeoutError):
    """A limit was reached: the total one or, if `silent`, the one between two signs of progress."""

    def __init__(self, silent: bool, limit_s: float) -> None:
        super().__init__()
        self.silent, self.limit_s = silent, limit_s


class Timeouts:
    """The limits in force. Each is enforced at most `CHECK_EVERY_S` late."""

    def __init__(self) -> None:
        self._running: set[Timeout] = set()
        self._timer: asyncio.TimerHandle | None = None

    def start(self, total_s: float, silence_s: float) -> Timeout:
        return Timeout(self, total_s, silence_s)

    def add(self, timeout: Timeout, loop: asyncio.AbstractEventLoop) -> None:
        self._running.add(timeout)
        if self._timer is None:
            self._timer = loop.call_later(CHECK_EVERY_S, self._check_all, loop)

    def remove(self, timeout: Timeout) -> None:
        self._running.discard(timeout)

    def _check_all(self, loop: asyncio.AbstractEventLoop) -> None:
        now_s = loop.time()
        for timeout in self._running:
            timeout.check(now_s)
        self._timer = loop.call_later(CHECK_EVERY_S, self._check_all, loop) if self._running else None


class Timeout:
    """A context manager: cancels the task inside it when a limit is reached, and raises `TimedOut` instead."""

    __slots__ = ("_cancels", "_expired", "_loop", "_over_s", "_silence_s", "_since_s", "_task", "_timeouts", "_total_s")

    def __init__(self, timeouts: Timeouts, total_s: float, silence_s: float) -> None:
        self._timeouts, self._total_s, self._silence_s = timeouts, total_s, silence_s
        self._expired: TimedOut | None = None

    def __enter__(self) -> Timeout:
        task = asyncio.current_task()
        assert task is not None, "a timeout needs a task that it can cancel"
        self._task, self._cancels, self._loop = task, task.cancelling(), task.get_loop()
        self._since_s = self._loop.time()
        self._over_s = self._since_s + self._total_s
        self._timeouts.add(self, self._loop)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._timeouts.remove(self)
        # If the task was cancelled from elsewhere too, that cancellation must not be replaced by our own error.
        if self._expired is not None and self._task.uncancel() <= self._cancels and kind is asyncio.CancelledError:
            raise self._expired from error

    def restart_silence(self, in_s: float = 0.0) -> None:
        """Restart the silence limit; it counts from `in_s` seconds from now."""
        self._since_s = self._loop.time() + in_s

    def check(self, now_s: float) -> None:
        """Cancel the task if a limit was reached."""
        silent = now_s >= self._since_s + self._silence_s
        over = now_s >= self._over_s
        if self._expired is None and (silent or over):
            self._expired = TimedOut(not over, self._total_s if over else self._silence_s)
            self._task.cancel()
