"""Detects from a thread that the event loop is blocked, and logs what blocks it.

A coroutine that computes for long, or waits without `await`, stops everything else in the process, including the log of
timeouts. The thread checks once a second that the loop responds, and only while deliveries are running.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
import traceback
from collections.abc import Callable

CHECK_EVERY_S = 1.0
BLOCKED_S = 5.0
FRAMES_MAX = 8

log = logging.getLogger("holdfast.loop")


class LoopMonitor:
    """`busy` is set while deliveries run. `describe` returns which delivery a task runs."""

    def __init__(
        self, busy: threading.Event, describe: Callable[[object], str | None], blocked_s: float = BLOCKED_S
    ) -> None:
        self._busy, self._describe, self._blocked_s = busy, describe, blocked_s
        self._stopped = threading.Event()
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()
        self._thread = threading.Thread(target=self._watch, name="holdfast:monitor", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._busy.set()  # wakes the thread

    def _watch(self) -> None:
        while True:
            self._busy.wait()
            if self._stopped.is_set() or not self._check() or self._stopped.wait(CHECK_EVERY_S):
                return

    def _check(self) -> bool:
        """Wait until the loop responds, and warn while it does not. False if the loop is closed."""
        responded = threading.Event()
        began_s, warn_after_s, warned = time.monotonic(), self._blocked_s, False
        try:
            self._loop.call_soon_threadsafe(responded.set)
        except RuntimeError:
            return False
        while not responded.wait(warn_after_s):
            if self._stopped.is_set():
                return False
            warned = True
            self._warn(time.monotonic() - began_s)
            warn_after_s *= 2
        if warned:
            log.warning("the event loop responds again after %.0f s", time.monotonic() - began_s)
        return True

    def _warn(self, blocked_s: float) -> None:
        what = self._describe(asyncio.current_task(self._loop))
        frame = sys._current_frames().get(self._loop_thread)
        stack = "".join(traceback.format_stack(frame)[-FRAMES_MAX:]) if frame is not None else ""
        log.error(
            "%s has blocked the event loop for %.0f s: nothing else runs in this process. Make the handler a plain "
            "function, which runs in a thread, or use await. Current stack:\n%s",
            what or "something other than a handler",
            blocked_s,
            stack.rstrip(),
        )
