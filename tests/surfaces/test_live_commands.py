"""`--watch` and `--follow`: live views for people, in a real terminal, in a pipe and as JSON lines."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from daemon import Daemon
from hooks import claude, write_hook
from screen import Screen

LINE_S = 60.0


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    with Daemon(tmp_path / "home") as daemon:
        yield daemon


@pytest.fixture
def screen(tmp_path: Path, daemon: Daemon) -> Iterator[Screen]:
    one = Screen(tmp_path, daemon.home, 80, 24)
    yield one
    one.close()


class Running:
    """A command in a process of its own. `take` returns its next lines."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self._lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line.rstrip("\n"))

    def take(self) -> str:
        return self._lines.get(timeout=LINE_S)

    def until(self, wanted: Callable[[Any], bool]) -> Any:
        while not wanted(answer := json.loads(self.take())):
            pass
        return answer


@contextlib.contextmanager
def running(daemon: Daemon, *arguments: str) -> Iterator[Running]:
    process = subprocess.Popen(
        [sys.executable, "-m", "holdfast", *arguments], env=daemon.env, text=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        yield Running(process)
    finally:
        process.kill()
        process.wait(60)
        assert process.stdout is not None
        process.stdout.close()


def emit(daemon: Daemon, type: str = "order.placed", **more: Any) -> str:
    status, answer = daemon.request("POST", "/api/events", {"type": type, **more})
    assert status == 201
    return str(answer["id"])


def start_session(daemon: Daemon, native: str, number: int = 1) -> None:
    write_hook(daemon.home / "spool", number, "claude", claude("SessionStart", native))


def test_status_is_watched_on_a_screen_of_its_own(screen: Screen, daemon: Daemon) -> None:
    screen.type("status --watch")
    screen.wait(lambda lines: any("is healthy" in line for line in lines))
    emit(daemon)
    lines = screen.wait(lambda lines: any(line.split()[:2] == ["events", "1"] for line in lines))
    assert len([line for line in lines if "is healthy" in line]) == 1, "an old picture is still there"
    screen.press("C-c")
    assert screen.ended() == 0
    assert screen.is_cursor_shown()
    assert any("is healthy" in line for line in screen.lines()), "the last state stays in the terminal"
    assert not any("Traceback" in line for line in screen.lines())


def test_a_watched_terminal_may_change_its_size(screen: Screen, daemon: Daemon) -> None:
    screen.type("status --watch")
    screen.wait(lambda lines: any("is healthy" in line for line in lines))
    screen._call("resize-window", "-x", "60", "-y", "15")
    emit(daemon, "nobody.wants")
    lines = screen.wait(lambda lines: any("1 matched no contract" in line for line in lines))
    assert max(map(len, lines)) <= 60
    screen.press("C-c")
    assert screen.ended() == 0


def test_a_watch_waits_for_a_daemon_that_restarts(screen: Screen, daemon: Daemon) -> None:
    screen.type("status --watch")
    screen.wait(lambda lines: any("is healthy" in line for line in lines))
    daemon.stop()
    screen.wait(lambda lines: any(line.startswith("! no daemon") for line in lines))
    daemon.start()
    emit(daemon)
    screen.wait(lambda lines: any(line.split()[:2] == ["events", "1"] for line in lines))
    screen.press("C-c")
    assert screen.ended() == 0


def test_sessions_are_watched_and_new_ones_appear(screen: Screen, daemon: Daemon) -> None:
    screen.type("sessions --watch")
    screen.wait(lambda lines: "none" in lines)
    start_session(daemon, "n1")
    screen.wait(lambda lines: any(line.startswith("claude-n1") for line in lines))
    screen.press("C-c")
    assert screen.ended() == 0


def test_watched_answers_are_json_lines(daemon: Daemon) -> None:
    with running(daemon, "status", "--watch", "--json") as command:
        assert json.loads(command.take())["events"] == 0
        emit(daemon)
        assert command.until(lambda answer: answer["events"] == 1)["healthy"]
        command.process.send_signal(signal.SIGINT)
        assert command.process.wait(60) == 0
    with running(daemon, "sessions", "--watch", "--json") as command:
        assert json.loads(command.take())["items"] == []
        start_session(daemon, "n2")
        command.until(lambda answer: [item["id"] for item in answer["items"]] == ["claude-n2"])


def test_a_watch_into_a_closed_pipe_ends(daemon: Daemon) -> None:
    with running(daemon, "status", "--watch", "--json") as command:
        command.take()
        assert command.process.stdout is not None
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, command.process.stdout.fileno())
        os.close(null)
        assert command.process.wait(60) == 0


def test_a_watch_without_a_daemon_fails_at_once(tmp_path: Path) -> None:
    with Daemon(tmp_path / "home") as daemon:
        daemon.stop()
        assert daemon.cli("status", "--watch").code == 4


def test_listed_events_are_followed_each_once_over_a_restart(daemon: Daemon) -> None:
    ids = [emit(daemon, stream=f"order:{number}") for number in range(4)]
    emit(daemon, "other")
    with running(daemon, "events", "list", "--follow", "--json", "--type", "order.placed", "--limit", "3") as command:
        seen = [json.loads(command.take())["id"] for _ in range(3)]
        ids.append(emit(daemon))
        seen.append(json.loads(command.take())["id"])
        daemon.restart()
        ids.append(emit(daemon))
        seen.append(json.loads(command.take())["id"])
        assert seen == ids[1:], "the oldest first, without gap or repeat"


def test_followed_events_are_rows_of_one_table(screen: Screen, daemon: Daemon) -> None:
    emit(daemon, stream="order:1")
    screen.type("events list --follow")
    screen.wait(lambda lines: any("order:1" in line for line in lines))
    emit(daemon, "a.very.long.type.that.does.not.fit.into.its.column", stream="order:2")
    lines = screen.wait(lambda lines: any("order:2" in line for line in lines))
    heading, first, second = (line for line in lines if line.strip() and "holdfast" not in line)
    at = heading.index("STREAM")
    assert first[at:].startswith("order:1")
    assert second[at:].startswith("order:2")
    screen.press("C-c")
    assert screen.ended() == 0


@pytest.mark.parametrize("option", [["--unmatched"], ["--after", "5"], ["--search", "tea"]])
def test_follow_refuses_what_a_live_view_cannot_filter(daemon: Daemon, option: list[str]) -> None:
    assert daemon.cli("events", "list", "--follow", *option).code == 2


def test_tail_filters_by_property(daemon: Daemon) -> None:
    for country in ("FR", "NZ"):
        emit(daemon, stream="run", properties={"country": country, "tags": ["a", "b"], "big": True})
    for wanted in ("country=NZ", "tags=b", "big=true"):
        said = daemon.cli("tail", "run", "--property", wanted, "--limit", "1", "--json")
        assert said.json["properties"]["country"] == ("NZ" if wanted == "country=NZ" else "FR")
    assert daemon.cli("tail", "run", "--property", "novalue").code == 2


def test_a_person_reads_one_line_per_event(screen: Screen, daemon: Daemon) -> None:
    emit(daemon, stream="run", payload={"text": "お茶" * 60})
    screen.type("tail run")
    lines = screen.wait(lambda lines: any("order.placed" in line for line in lines))
    (line,) = (line for line in lines if "order.placed" in line)
    assert line.endswith("…")
    screen.press("C-c")
    assert screen.ended() == 0
