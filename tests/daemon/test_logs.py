"""Logging under a storm: identical lines are counted, and the count is logged."""

from __future__ import annotations

import logging

import pytest

from holdfast.logs import KEYS_MAX, LogThrottle


def test_lines_beyond_the_burst_are_counted_and_the_next_one_names_the_count(caplog: pytest.LogCaptureFixture) -> None:
    now = [0.0]
    throttle = LogThrottle(logging.getLogger("t"), burst=2, period_s=60, now_s=lambda: now[0])
    for _ in range(5):
        throttle.log(logging.WARNING, "a", "%s failed", "it")
    throttle.log(logging.WARNING, "b", "another")
    now[0] = 61.0
    throttle.log(logging.WARNING, "a", "%s failed", "it")
    assert [record.getMessage() for record in caplog.records] == [
        "it failed",
        "it failed (more like this are only counted for the next 60 s)",
        "another",
        "it failed (and 3 more like this were not shown)",
    ]


def test_the_kinds_that_are_remembered_are_bounded() -> None:
    throttle = LogThrottle(logging.getLogger("t"), now_s=lambda: 0.0)
    for number in range(KEYS_MAX * 3):
        throttle.log(logging.DEBUG, number, "x")
    assert len(throttle._windows) <= KEYS_MAX
