"""`holdfast tail`: readable lines, JSON lines, and no gap or repeat over restarts of the daemon."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from daemon import Daemon
from holdfast.surfaces.cli.text_width import cut

LINE_S = 60.0


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    with Daemon(tmp_path / "home") as daemon:
        yield daemon


def append(daemon: Daemon, count: int = 1, stream: str | None = "run:1", **more: Any) -> None:
    for number in range(count):
        body = {"type": "run.step", "stream": stream, "payload": {"n": number}, **more}
        assert daemon.request("POST", "/api/events", {k: v for k, v in body.items() if v is not None})[0] == 201


class Tailing:
    """The command in a process of its own. `take` returns its next lines."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self._lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line.rstrip("\n"))

    def take(self, count: int) -> list[str]:
        return [self._lines.get(timeout=LINE_S) for _ in range(count)]

    def json(self, count: int) -> list[Any]:
        return [json.loads(line) for line in self.take(count)]


@contextlib.contextmanager
def tailing(daemon: Daemon, *arguments: str) -> Iterator[Tailing]:
    process = subprocess.Popen(
        [sys.executable, "-m", "holdfast", "tail", *arguments], env=daemon.env, text=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        yield Tailing(process)
    finally:
        process.kill()
        process.wait(60)
        assert process.stdout is not None
        process.stdout.close()


def test_a_line_fits_the_terminal_and_shows_control_characters(daemon: Daemon) -> None:
    append(daemon, payload={"text": "\x1b[31m red \u96ea" + "x" * 200})
    said = daemon.cli("tail", "run:1", "--limit", "1")
    assert said.code == 0
    (line,) = said.out.splitlines()
    assert len(line) <= 80
    assert '  1  run.step  {"text": "\\x1b[31m red' in line
    assert line.endswith("…")
    wide = daemon.cli("tail", "run:1", "--limit", "1", env={"COLUMNS": "200"})
    assert len(wide.out.splitlines()[0]) > 150


def test_the_last_ten_events_come_first_and_from_begins_with_a_seq(daemon: Daemon) -> None:
    append(daemon, 15)
    last = daemon.cli("tail", "run:1", "--limit", "10", "--json").out.splitlines()
    assert [json.loads(line)["seq"] for line in last] == list(range(6, 16))
    two = daemon.cli("tail", "run:1", "--from", "3", "--limit", "2", "--json").out.splitlines()
    assert [json.loads(line)["seq"] for line in two] == [3, 4]
    assert json.loads(two[0]) == daemon.request("GET", "/api/streams/run:1/events?after=2")[1]["items"][0]


def test_a_stream_is_followed_over_restarts_without_gap_or_repeat(daemon: Daemon) -> None:
    append(daemon, 5)
    with tailing(daemon, "run:1", "--from", "1", "--json") as command:
        seqs = [event["seq"] for event in command.json(5)]
        for kill in (True, False):
            append(daemon, 3)
            if kill:
                daemon.kill9()
            else:
                daemon.stop()
            daemon.start()
            append(daemon, 3)
            seqs += [event["seq"] for event in command.json(6)]
        assert seqs == list(range(1, 18))
        command.process.send_signal(signal.SIGINT)
        assert command.process.wait(60) == 0


def test_everything_is_followed_over_a_restart_each_event_once(daemon: Daemon) -> None:
    with tailing(daemon, "--json", "--type", "run.*") as command:
        numbers, number = [], 0
        while not numbers:  # until it is connected
            append(daemon, payload={"number": number})
            number += 1
            with contextlib.suppress(queue.Empty):
                numbers.append(json.loads(command._lines.get(timeout=1))["payload"]["number"])
        daemon.restart()
        append(daemon, stream=None, payload={"number": number})
        append(daemon, type="other", payload={"number": -1})
        append(daemon, stream="run:2", payload={"number": number + 1})
        while numbers[-1] < number + 1:
            numbers.append(command.json(1)[0]["payload"]["number"])
    assert numbers == list(range(numbers[0], number + 2))


def test_a_closed_pipe_ends_it(daemon: Daemon) -> None:
    append(daemon, 3)
    with tailing(daemon, "run:1", "--json") as command:
        assert json.loads(command.take(1)[0])["seq"] == 1
        assert command.process.stdout is not None
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, command.process.stdout.fileno())  # nothing reads the pipe any more
        os.close(null)
        while command.process.poll() is None:
            append(daemon)
        assert command.process.returncode == 0


def test_mistakes_are_said_at_once(daemon: Daemon) -> None:
    assert daemon.cli("tail", "none").code == 3
    assert daemon.cli("tail", "--from", "1").code == 2
    assert daemon.cli("tail", "run:1", "--type", "x").code == 2
    append(daemon)
    assert daemon.cli("tail", "run:1", "--from", "9").code == 1
    daemon.stop()
    assert daemon.cli("tail").code == 4


@pytest.mark.parametrize(
    ("text", "width", "shown"),
    [("\u96ea" * 3, 6, "\u96ea" * 3), ("\u96ea" * 4, 6, "\u96ea\u96ea…"), ("e\u0301" * 3, 3, "e\u0301" * 3)],
)
def test_a_character_may_take_two_columns_or_none(text: str, width: int, shown: str) -> None:
    assert cut(text, width) == shown
