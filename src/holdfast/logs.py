"""Log throttling, so that many equal failures do not flood the log."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass

PERIOD_S = 60.0
BURST = 20
KEYS_MAX = 1000


@dataclass(slots=True)
class _Window:
    """One kind of line in the current period: when the period began, how many lines were written and left out."""

    began_s: float
    written: int = 0
    left_out: int = 0


class LogThrottle:
    """Writes at most `burst` lines of one kind per period, then counts. The next line of that kind names the count.

    throttle = LogThrottle(log)
    throttle.log(logging.WARNING, ("address", error), "%s failed: %s", address, error)
    """

    def __init__(
        self,
        log: logging.Logger,
        *,
        burst: int = BURST,
        period_s: float = PERIOD_S,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._log, self._burst, self._period_s, self._now_s = log, burst, period_s, now_s
        self._windows: dict[Hashable, _Window] = {}

    def log(
        self, level: int, key: Hashable, message: str, *arguments: object, error: BaseException | None = None
    ) -> None:
        """Write one line, with the traceback of `error` if there is one, unless there were too many of this kind."""
        now_s = self._now_s()
        window = self._windows.get(key)
        if window is None or now_s - window.began_s >= self._period_s:
            left_out = 0 if window is None else window.left_out
            window = self._open(key, now_s)
            if left_out:
                message += " (and %d more like this were not shown)"
                arguments = (*arguments, left_out)
        if window.written >= self._burst:
            window.left_out += 1
            return
        window.written += 1
        if window.written == self._burst:
            message += " (more like this are only counted for the next %.0f s)"
            arguments = (*arguments, max(0.0, window.began_s + self._period_s - now_s))
        self._log.log(level, message, *arguments, exc_info=error)

    def _open(self, key: Hashable, now_s: float) -> _Window:
        if len(self._windows) >= KEYS_MAX:
            self._close_old(now_s)
        window = self._windows[key] = _Window(now_s)
        return window

    def _close_old(self, now_s: float) -> None:
        """Drop keys whose period is over, or all keys if none is, so that the table stays small."""
        kept = {key: window for key, window in self._windows.items() if now_s - window.began_s < self._period_s}
        self._windows = kept if len(kept) < KEYS_MAX else {}
