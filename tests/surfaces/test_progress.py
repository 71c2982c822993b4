"""Progress: a bar in a terminal, lines elsewhere, nothing for work that ends soon or prints JSON."""

from __future__ import annotations

import io
import itertools
import os
import pty
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from daemon import Daemon
from holdfast import progress as module
from holdfast.ingress.importer import MANY
from holdfast.progress import Done, Progress, file_growth
from hooks import claude, drop_hook

WAIT_S = 60.0


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Work counts as long after a moment."""
    for name in ("BAR_AFTER_S", "BAR_EVERY_S", "LINE_AFTER_S"):
        monkeypatch.setattr(module, name, 0.001)


def wait_for(condition: Callable[[], bool]) -> None:
    ends = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < ends
        time.sleep(0.001)


def test_a_terminal_shows_a_bar_that_goes_away() -> None:
    parent, child = pty.openpty()
    with os.fdopen(child, "w", encoding="utf-8") as terminal, os.fdopen(parent, "rb", buffering=0) as reader:
        shown = bytearray()
        with Progress("receipts", stream=terminal) as progress:
            progress(500, 1000)
            while b"50 %" not in shown:
                shown += reader.read(1000)
            progress(750, 1000)
            while b"75 %" not in shown:
                shown += reader.read(1000)
        rest = reader.read(1000)
    assert b"receipts  [##########----------]  50 %" in shown
    assert rest.endswith(b"\r\x1b[K")
    assert b"\n" not in shown


def test_a_log_gets_a_line_now_and_then() -> None:
    lines: list[str] = []
    looks = itertools.count()
    with Progress("importing the spool", log=lines.append, measure=lambda: Done(10 + 0 * next(looks), 40)):
        wait_for(lambda: bool(lines))
        time.sleep(0.05)
    assert len(lines) == next(looks) == 1
    assert lines[0].startswith("importing the spool: 10 of 40 (25 %), about")


def test_a_pipe_gets_lines_without_control_characters() -> None:
    out = io.StringIO()
    with Progress("prune", stream=out, measure=lambda: Done(7)):
        wait_for(lambda: bool(out.getvalue()))
    assert out.getvalue().startswith("holdfast: prune: 7 after ")
    assert "\x1b" not in out.getvalue()


def test_quiet_progress_starts_no_thread() -> None:
    before = threading.active_count()
    out = io.StringIO()
    with Progress("x", quiet=True, stream=out) as progress:
        progress(1, 2)
        assert threading.active_count() == before
    assert out.getvalue() == ""


def test_short_work_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LINE_AFTER_S", 3600.0)
    out = io.StringIO()
    with Progress("x", stream=out) as progress:
        progress(1, 2)
        time.sleep(0.01)
    assert out.getvalue() == ""


def test_the_growth_of_a_file_is_measured(tmp_path: Path) -> None:
    whole, fresh = tmp_path / "whole", tmp_path / "fresh"
    whole.write_bytes(b"x" * 10)
    assert file_growth(fresh, whole)() == Done()
    fresh.write_bytes(b"x" * 4)
    assert file_growth(fresh, whole)() == Done(4, 10)


def test_bulk_commands_report_and_print_only_json_with_json(tmp_path: Path) -> None:
    with Daemon(tmp_path / "home") as daemon:
        for arguments in (["dlq", "reprocess", "--all", "--yes"], ["prune"], ["receipts", "verify"]):
            said = daemon.cli(*arguments, "--json")
            assert (said.code, said.err) == (0, ""), said
            assert said.json


@pytest.mark.slow
def test_the_import_of_a_large_spool_is_in_the_log(tmp_path: Path) -> None:
    for number in range(MANY):
        drop_hook(tmp_path / "home" / "spool", number, "claude", claude("Stop", f"s{number % 5}"))
    with Daemon(tmp_path / "home") as daemon:
        daemon.wait_for("/api/status", lambda answer: answer["spooled"] == 0)
        assert f"imported {MANY} records from the spool" in daemon.log
