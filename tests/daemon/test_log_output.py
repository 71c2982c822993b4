"""Log lines of the daemon: UTC, text or JSON, repeated lines counted."""

from __future__ import annotations

import io
import json
import logging

import pytest
from click.testing import CliRunner

from holdfast.daemon.command import up
from holdfast.log_output import LINES_MAX, JsonLines, LogOutput, TextLines

MOMENT = 1_700_000_000.5


class Log:
    def __init__(self, formatter: logging.Formatter) -> None:
        self.now_s, self.stream = 0.0, io.StringIO()
        self.handler = LogOutput(self.stream, lambda: self.now_s)
        self.handler.setFormatter(formatter)

    def write(self, message: str, level: int = logging.WARNING, error: BaseException | None = None) -> None:
        exc_info = None if error is None else (type(error), error, error.__traceback__)
        record = logging.LogRecord("holdfast.t", level, __file__, 1, message, (), exc_info)
        record.created = MOMENT
        self.handler.handle(record)

    def lines(self) -> list[str]:
        return self.stream.getvalue().splitlines()


@pytest.fixture
def log() -> Log:
    return Log(TextLines())


def test_times_are_utc(log: Log) -> None:
    log.write("hello")
    assert log.lines() == ["2023-11-14T22:13:20.500Z WARNING holdfast.t: hello"]


def test_json_lines_hold_one_object_each_with_the_traceback() -> None:
    log = Log(JsonLines())
    try:
        raise KeyError("nokey")
    except KeyError as error:
        log.write("failed\nbadly", error=error)
    (line,) = log.lines()
    written = json.loads(line)
    assert written | {"error": ""} == {
        "time": "2023-11-14T22:13:20.500Z", "level": "warning", "logger": "holdfast.t", "message": "failed\nbadly",
        "error": "",
    }  # fmt: skip
    assert "KeyError: 'nokey'" in written["error"]


def test_a_repeated_line_is_written_once_and_then_counted(log: Log) -> None:
    for _ in range(5):
        log.write("the disk is full")
    log.write("the disk is full", logging.ERROR)
    log.write("another")
    assert len(log.lines()) == 3
    log.now_s = 60
    log.write("the disk is full")
    counted = log.lines()[3]
    assert counted.endswith("WARNING holdfast.t: the disk is full (4 more times since 2023-11-14T22:13:20.500Z)")
    assert log.lines()[-1].endswith("holdfast.t: the disk is full")


def test_a_count_is_written_at_the_end_too(log: Log) -> None:
    log.write("a")
    log.write("a")
    log.handler.close()
    assert log.lines()[-1].endswith("a (once more since 2023-11-14T22:13:20.500Z)")


def test_equal_messages_with_different_errors_are_different_lines(log: Log) -> None:
    log.write("failed", error=KeyError("a"))
    log.write("failed", error=KeyError("b"))
    assert sum("failed" in line for line in log.lines()) == 2


def test_the_number_of_remembered_lines_is_bounded(log: Log) -> None:
    for number in range(LINES_MAX + 10):
        log.write(f"line {number}")
    assert len(log.handler._lines) == LINES_MAX
    assert len(log.lines()) == LINES_MAX + 10


def test_an_unknown_level_is_refused() -> None:
    done = CliRunner().invoke(up, ["--log-level", "loud"])
    assert done.exit_code == 2
    assert "'debug', 'info', 'warning', 'error'" in done.output
