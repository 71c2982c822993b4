"""Log lines of the daemon: times in UTC, as text or JSON. A line that is repeated is counted instead of written."""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TextIO

from holdfast.domain.event import iso_time

LEVELS = ("debug", "info", "warning", "error")
FORMATS = ("text", "json")
PERIOD_S = 60.0
LINES_MAX = 1000
"""Different lines that are remembered for one period."""


def start_logging(level: str = "info", format: str = "text", stream: TextIO | None = None) -> None:
    """Write the log of this process to standard error."""
    handler = LogOutput(stream or sys.stderr)
    handler.setFormatter(JsonLines() if format == "json" else TextLines())
    logging.basicConfig(level=level.upper(), handlers=[handler])
    logging.getLogger("uvicorn").setLevel(logging.ERROR)  # clients with malformed requests must not fill the log


class TextLines(logging.Formatter):
    """`2026-01-31T12:00:00.123Z WARNING holdfast.delivery: …`, then the traceback if there is one."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: N802 - of the base class
        return _time(record)


class JsonLines(logging.Formatter):
    """One JSON object in each line: time, level, logger, message, and `error` with the traceback if there is one."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


@dataclass(slots=True)
class _Repeated:
    """A line that was written: when, and how often it came again since."""

    record: logging.LogRecord
    since_s: float
    count: int = 0


class LogOutput(logging.StreamHandler[TextIO]):
    """Writes a line once per minute. How often it came again is written with the first line after that minute."""

    def __init__(self, stream: TextIO, now_s: Callable[[], float] = time.monotonic) -> None:
        super().__init__(stream)
        self._now_s = now_s
        self._lines: dict[tuple[object, ...], _Repeated] = {}  # oldest first

    def emit(self, record: logging.LogRecord) -> None:
        now_s = self._now_s()
        self._end(lambda line: now_s - line.since_s >= PERIOD_S)
        key = (record.name, record.levelno, record.getMessage(), *_error(record))
        if (known := self._lines.get(key)) is not None:
            known.count += 1
            return
        if len(self._lines) >= LINES_MAX:
            oldest = next(iter(self._lines.values()))
            self._end(lambda line: line is oldest)
        self._lines[key] = _Repeated(record, now_s)
        super().emit(record)

    def close(self) -> None:
        self._end(lambda line: True)
        super().close()

    def _end(self, is_over: Callable[[_Repeated], bool]) -> None:
        """Forget lines from the oldest on, and write how often each was repeated."""
        while self._lines:
            key, line = next(iter(self._lines.items()))
            if not is_over(line):
                return
            del self._lines[key]
            if line.count:
                first, times = line.record, "once more" if line.count == 1 else f"{line.count} more times"
                text = f"{first.getMessage()} ({times} since {_time(first)})"
                super().emit(logging.LogRecord(first.name, first.levelno, first.pathname, first.lineno, text, (), None))


def _error(record: logging.LogRecord) -> tuple[object, ...]:
    error = record.exc_info[1] if record.exc_info else None
    return () if error is None else (type(error), str(error))


def _time(record: logging.LogRecord) -> str:
    return iso_time(int(record.created * 1000))
