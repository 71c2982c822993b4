"""A sampling profiler: which part of the code uses the CPU, over all threads. Standard library only.

The kernel sends a signal after every few milliseconds of CPU time. The CPU time that each thread has used since the
last signal is added to the place where that thread is now, so that waiting costs nothing. The handler runs in the main
thread right where it was interrupted. A sampling thread would get the interpreter lock mostly where others give it up,
and would show only those places.
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from types import FrameType

EVERY_S = 0.002
OURS = "/holdfast/"


class Sampling:
    """To be started and stopped in the main thread."""

    def __init__(self) -> None:
        self.seconds: Counter[str] = Counter()
        self._before: dict[int, float] = {}

    def start(self) -> None:
        signal.signal(signal.SIGPROF, lambda number, frame: self._sample(frame))
        signal.setitimer(signal.ITIMER_PROF, EVERY_S, EVERY_S)

    def stop(self) -> dict[str, float]:
        """The share of each place, the largest first."""
        signal.setitimer(signal.ITIMER_PROF, 0)
        total = sum(self.seconds.values()) or 1.0
        return {place: seconds / total for place, seconds in self.seconds.most_common()}

    def _sample(self, interrupted: FrameType | None) -> None:
        frames = sys._current_frames()
        main = threading.main_thread().ident
        for thread in threading.enumerate():
            id = thread.ident
            if id is None or id not in frames:
                continue
            try:
                used = time.clock_gettime(time.pthread_getcpuclockid(id))
            except OSError:  # the thread has ended
                continue
            if (more := used - self._before.get(id, used)) > 0:
                self.seconds[place_of(interrupted if id == main else frames[id])] += more
            self._before[id] = used


def place_of(frame: FrameType | None) -> str:
    """The innermost module of Holdfast on the stack, and the library that it called if any; else the library alone."""
    library = ""
    while frame is not None:
        path = frame.f_code.co_filename
        if OURS in path:
            module = path.rpartition(OURS)[2].removesuffix(".py")
            return f"{module} → {library}" if library else module
        library = library or library_of(path)
        frame = frame.f_back
    return library or "other"


def library_of(path: str) -> str:
    """
    >>> library_of("/lib/python3.11/site-packages/asyncpg/pool.py"), library_of("/lib/python3.11/json/decoder.py")
    ('asyncpg', 'json')
    >>> library_of("/usr/lib/python3.11/selectors.py"), library_of("<string>")
    ('selectors', '')
    """
    if path.startswith("<"):  # generated, as the methods of a dataclass are
        return ""
    parts = Path(path).parts
    for mark in ("site-packages", *(part for part in parts if part.startswith("python3."))):
        if mark in parts[:-1]:
            return parts[parts.index(mark) + 1].removesuffix(".py")
    return "the benchmark" if parts[-2:-1] == ("peers",) else "other"
