"""Notices, from a thread, that something blocks the event loop, and names it in the log.

A coroutine that computes for long or waits without `await` stops everything else in the process, the log of timeouts
included. The thread asks the loop once a second for a sign of life, and only while deliveries are under way.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
import traceback
from collections.abc import Callable

ASK_EVERY_S = 1.0
BLOCKED_S = 5.0
FRAMES_MAX = 8

log = logging.getLogger("holdfast.loop")


class LoopMonitor:
    """`busy` is set while there is anything to watch. `name_of` says what a task works on."""

    def __init__(
        self, busy: threading.Event, name_of: Callable[[object], str | None], blocked_s: float = BLOCKED_S
    ) -> None:
        self._busy, self._name_of, self._blocked_s = busy, name_of, blocked_s
        self._over = threading.Event()
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()
        self._thread = threading.Thread(target=self._watch, name="holdfast:monitor", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        self._busy.set()  # so that the thread looks up

    def _watch(self) -> None:
        while True:
            self._busy.wait()
            if self._over.is_set() or not self._ask() or self._over.wait(ASK_EVERY_S):
                return

    def _ask(self) -> bool:
        """Ask the loop for a sign of life and wait for it. False: there is no loop any more."""
        answered = threading.Event()
        asked_s, warn_after_s, warned = time.monotonic(), self._blocked_s, False
        try:
            self._loop.call_soon_threadsafe(answered.set)
        except RuntimeError:
            return False
        while not answered.wait(warn_after_s):
            if self._over.is_set():
                return False
            warned = True
            self._warn(time.monotonic() - asked_s)
            warn_after_s *= 2
        if warned:
            log.warning("the event loop runs again after %.0f s", time.monotonic() - asked_s)
        return True

    def _warn(self, blocked_s: float) -> None:
        what = self._name_of(asyncio.current_task(self._loop))
        frame = sys._current_frames().get(self._loop_thread)
        stack = "".join(traceback.format_stack(frame)[-FRAMES_MAX:]) if frame is not None else ""
        log.error(
            "%s has blocked the event loop for %.0f s: nothing else runs in this process. Make the handler a plain "
            "function, which runs in a thread, or await what it waits for. It is here:\n%s",
            what or "something",
            blocked_s,
            stack.rstrip(),
        )
