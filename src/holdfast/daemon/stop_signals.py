"""SIGINT and SIGTERM, also while the event loop is blocked.

Python runs signal handlers in the main thread, between two of its instructions, and asyncio runs them on the event
loop: a handler that blocks either would block the stop as well. The signal's number is therefore written into a pipe
at once, by the interpreter itself, and a thread of ours reads it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)
EXIT_FORCED = 1
EXIT_SECOND_SIGNAL = 130


class StopSignals:
    """The first signal calls `stop` on the event loop. A second one, or `limit_s` later, ends the process."""

    def __init__(self, stop: Callable[[], None], limit_s: float, left: Callable[[], str]) -> None:
        self._stop, self._limit_s, self._left = stop, limit_s, left
        self._loop = asyncio.get_running_loop()
        self._read, self._write = os.pipe()
        os.set_blocking(self._write, False)

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """To be entered in the main thread."""
        wakeup = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        handlers = {number: signal.signal(number, _nothing) for number in SIGNALS}
        threading.Thread(target=self._listen, name="holdfast:signals", daemon=True).start()
        try:
            yield
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)
            signal.set_wakeup_fd(wakeup)
            os.close(self._write)  # ends the thread

    def _listen(self) -> None:
        if not self._wait_for_signal():
            return
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._stop)
        ready, _, _ = select.select([self._read], [], [], self._limit_s)
        if not ready:
            _say(f"Stopped by force after {self._limit_s:g} s. {self._left()}")
            os._exit(EXIT_FORCED)
        if self._wait_for_signal():
            os._exit(EXIT_SECOND_SIGNAL)

    def _wait_for_signal(self) -> bool:
        """True when one of our signals came; False at the end of the pipe. Others have handlers of their own."""
        while data := os.read(self._read, 1):
            if data[0] in SIGNALS:
                return True
        return False


def _nothing(number: int, frame: FrameType | None) -> None:
    """A handler must be installed for the interpreter to write the signal's number into the pipe."""


def _say(text: str) -> None:
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.write(text + "\n")
        sys.stdout.flush()
