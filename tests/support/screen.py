"""A real terminal (tmux) of a given size, in which commands run."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

WAIT_S = 60.0
DONE = "command-has-ended"


class Screen:
    """Close it with `close`. `run` types a command and returns what it prints."""

    def __init__(self, folder: Path, home: Path, columns: int, rows: int, env: Mapping[str, str] | None = None) -> None:
        if shutil.which("tmux") is None:
            pytest.fail("these tests need tmux; install it, such as: apt-get install tmux", pytrace=False)
        self._tmux = ["tmux", "-u", "-S", str(folder / f"t{columns}"), "-f", "/dev/null"]
        given = {**os.environ, "HOLDFAST_HOME": str(home), "PS1": "$ ", "TERM": "xterm-256color", **(env or {})}
        for name in ("NO_COLOR", "COLUMNS", "LINES"):
            given.pop(name, None)
        size = ["-x", str(columns), "-y", str(rows)]
        subprocess.run([*self._tmux, "new-session", "-d", *size, "sh"], env=given, check=True, timeout=30)
        self._call("set-option", "-g", "history-limit", "5000")

    def run(self, command: str, colors: bool = False) -> list[str]:
        """The lines that a command prints."""
        self.type(command)
        return self.wait(lambda lines: self._end(lines) is not None, colors)[: self._end(self.lines())]

    def type(self, command: str) -> None:
        """Start `holdfast …` on an empty screen."""
        self._call("send-keys", "-R", ";", "clear-history")
        self._call("send-keys", "-l", f"clear; {sys.executable} -m holdfast {command}; echo {DONE[:8]}''{DONE[8:]} $?")
        self.press("Enter")

    def press(self, *keys: str) -> None:
        self._call("send-keys", *keys)

    def wait(self, until: Callable[[list[str]], bool], colors: bool = False) -> list[str]:
        """The lines of the terminal, once they fulfil a condition."""
        ends = time.monotonic() + WAIT_S
        while True:
            lines = self.lines(colors)
            if until(self.lines() if colors else lines):
                return lines
            assert time.monotonic() < ends, "\n".join(lines)
            time.sleep(0.05)

    def ended(self) -> int:
        """Wait for the end of the command, and return its exit code."""
        lines = self.wait(lambda lines: self._end(lines) is not None)
        return int(lines[self._end(lines) or 0].removeprefix(DONE))

    def lines(self, colors: bool = False) -> list[str]:
        return self._call("capture-pane", "-p", "-S", "-", *(["-e"] if colors else [])).splitlines()

    def is_cursor_shown(self) -> bool:
        return self._call("display-message", "-p", "#{cursor_flag} #{alternate_on}").split() == ["1", "0"]

    def close(self) -> None:
        subprocess.run([*self._tmux, "kill-server"], check=False, timeout=30)

    def _end(self, lines: list[str]) -> int | None:
        return next((number for number, line in enumerate(lines) if line.startswith(DONE)), None)

    def _call(self, *words: str) -> str:
        return subprocess.run([*self._tmux, *words], check=True, capture_output=True, text=True, timeout=30).stdout
