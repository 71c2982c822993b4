"""`holdfast hook`: the receiver behind the full command, and its failures in `status`."""

from __future__ import annotations

import resource
import sys
from functools import partial
from pathlib import Path

import pytest

from daemon import Daemon
from receiving import Receiver, silent


@pytest.fixture
def command(tmp_path: Path) -> Receiver:
    made = Receiver(tmp_path / "home", [sys.executable, "-m", "holdfast", "hook"])
    made.env["PYTHONPATH"] = str(Path(__file__).parents[2] / "src")
    return made


@pytest.mark.parametrize(
    ("words", "agent"),
    [(["--agent", "claude", "Stop"], "claude"), (["--agent"], "unknown"), (["--agnt", "x", "--help", "-h"], "unknown")],
)
def test_no_argument_makes_it_print_or_fail(command: Receiver, words: list[str], agent: str) -> None:
    assert silent(command(*words, stdin=b"{}"))
    ((header, _),) = command.records()
    assert header["agent"] == agent


def test_its_help_has_the_usual_form(command: Receiver) -> None:
    done = command("--help")
    assert done.returncode == 0
    assert b"--agent NAME" in done.stdout


def test_status_reports_events_that_could_not_be_stored() -> None:
    with Daemon() as daemon:
        receiver = Receiver(daemon.home)
        assert daemon.request("GET", "/api/status")[1]["notes"] == []
        limit = partial(resource.setrlimit, resource.RLIMIT_FSIZE, (2000, 2000))
        assert silent(receiver("--agent", "claude", "Stop", stdin=b"x" * 5000, preexec_fn=limit))
        receiver.clean()
        (message,) = daemon.request("GET", "/api/status")[1]["notes"]
        assert message.startswith("1 hook event was lost in the last 24 hours")
        assert message.endswith("(File too large)")
