"""Handles SIGINT, SIGTERM and SIGHUP, even while the event loop is blocked.

Python runs signal handlers in the main thread between two instructions, and asyncio runs them on the event loop, so a
blocking handler function would also block the stop. Here the interpreter itself writes the signal number to a pipe
(`signal.set_wakeup_fd`), and a thread reads it.
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
    """The first signal calls `stop` on the event loop. A second signal, or the end of `limit_s`, ends the process.

    `describe` returns a sentence about unfinished work for the last message. SIGHUP calls `reload`, unless it came
    because the terminal was closed: that stops the process too.
    """

    def __init__(
        self,
        stop: Callable[[], None],
        limit_s: float,
        describe: Callable[[], str],
        reload: Callable[[], None] = lambda: None,
    ) -> None:
        self._stop, self._limit_s, self._describe, self._reload = stop, limit_s, describe, reload
        self._in_terminal = _has_terminal() and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN  # as nohup does
        self._loop = asyncio.get_running_loop()
        self._read, self._write = os.pipe()
        os.set_blocking(self._write, False)

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """Must be entered in the main thread."""
        wakeup = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        handlers = {number: signal.signal(number, _ignore) for number in (*SIGNALS, signal.SIGHUP)}
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
            _print(f"Stopped by force after {self._limit_s:g} s. {self._describe()}")
            os._exit(EXIT_FORCED)
        if self._wait_for_signal():
            os._exit(EXIT_SECOND_SIGNAL)

    def _wait_for_signal(self) -> bool:
        """True when SIGINT or SIGTERM arrives, or the terminal is closed; False at the end of the pipe."""
        while data := os.read(self._read, 1):
            if data[0] in SIGNALS:
                return True
            if data[0] == signal.SIGHUP:
                if self._in_terminal and not _has_terminal():
                    return True
                with contextlib.suppress(RuntimeError):
                    self._loop.call_soon_threadsafe(self._reload)
        return False


def _ignore(number: int, frame: FrameType | None) -> None:
    """The interpreter writes the signal number to the pipe only if a handler is installed."""


def _has_terminal() -> bool:
    """Whether the process is controlled by a terminal that still exists."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True


def _print(text: str) -> None:
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.write(text + "\n")
        sys.stdout.flush()
