"""Progress of work that may take long: a bar in a terminal, a line now and then in a log."""

from __future__ import annotations

import shutil
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, Self, TextIO

BAR_AFTER_S, BAR_EVERY_S = 1.0, 0.2
LINE_AFTER_S, LINE_EVERY_S = 2.0, 10.0
BAR_WIDTH = 20


class Done(NamedTuple):
    """How much is done, of how much if that is known."""

    done: int | None = None
    total: int | None = None


class Progress:
    """Shows how far the work of a `with` block is. Work that ends within a second or two shows nothing.

        with Progress("receipts") as progress:
            progress(1_000, 50_000)

    A thread of its own shows the last figures, so that reporting them costs nothing. `log`: where lines go instead of
    standard error, without a bar. `measure` is called for the figures instead. `quiet`: show nothing.
    """

    def __init__(
        self,
        what: str,
        *,
        quiet: bool = False,
        log: Callable[[str], object] | None = None,
        measure: Callable[[], Done] | None = None,
        stream: TextIO | None = None,
    ) -> None:
        self.what = what
        self.measure = measure
        self._stream = stream or sys.stderr
        self._bar = log is None and self._stream.isatty()
        self._line = log or self._print
        self._figures = Done()
        self._began_s = self._shown_s = 0.0
        self._ended = threading.Event()
        self._thread = None if quiet else threading.Thread(target=self._run, name="holdfast:progress", daemon=True)

    def __enter__(self) -> Self:
        self._began_s = time.monotonic()
        if self._thread is not None:
            self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
        if self._bar and self._shown_s:
            self._write("\r\x1b[K")

    def __call__(self, done: int, total: int | None = None, what: str | None = None) -> None:
        """Report what is done by now. `what`: what this is about from now on."""
        self.what = what or self.what
        self._figures = Done(done, total)

    def _run(self) -> None:
        while not self._ended.wait(BAR_EVERY_S):
            now_s = time.monotonic()
            if now_s - self._began_s < (BAR_AFTER_S if self._bar else LINE_AFTER_S):
                continue
            if self._bar:
                self._write("\r\x1b[K" + self._text(now_s)[: shutil.get_terminal_size((80, 24)).columns - 1])
            elif self._shown_s and now_s - self._shown_s < LINE_EVERY_S:
                continue
            else:
                self._line(self._text(now_s))
            self._shown_s = now_s

    def _text(self, now_s: float) -> str:
        figures = self._figures if self.measure is None else self.measure()
        return text(self.what, figures, now_s - self._began_s, self._bar)

    def _print(self, line: str) -> None:
        self._write(f"holdfast: {line}\n")

    def _write(self, data: str) -> None:
        self._stream.write(data)
        self._stream.flush()


QUIET = Progress("", quiet=True)


def file_growth(fresh: Path, whole: Path) -> Callable[[], Done]:
    """Measures how much of a file has been copied, in bytes."""

    def measure() -> Done:
        try:
            return Done(fresh.stat().st_size, whole.stat().st_size)
        except OSError:
            return Done()

    return measure


def text(what: str, figures: Done, elapsed_s: float, bar: bool = False) -> str:
    """
    >>> text("receipts", Done(500, 1000), 10), text("restore", Done(), 10), text("prune", Done(7), 10)
    ('receipts: 500 of 1,000 (50 %), about 10 s left', 'restore: working for 10 s', 'prune: 7 after 10 s')
    >>> text("receipts", Done(500, 1000), 10, bar=True)
    'receipts  [##########----------]  50 %, about 10 s left'
    """
    done, total = figures
    if done is None:
        return f"{what}: working for {elapsed_s:.0f} s"
    if not total:
        return f"{what}: {done:,} after {elapsed_s:.0f} s"
    share = min(1.0, done / total)
    left = f", about {elapsed_s * (1 - share) / share:.0f} s left" if share > 0 else ""
    if not bar:
        return f"{what}: {done:,} of {total:,} ({share:.0%}){left}".replace("%", " %")
    marks = round(share * BAR_WIDTH)
    return f"{what}  [{'#' * marks}{'-' * (BAR_WIDTH - marks)}]  {100 * share:.0f} %{left}"
