"""The processes of a campaign: each is ended by its own id, and every wait has a time limit."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO

START_S = 120.0
STOP_S = 120.0


class Stuck(Exception):
    """An expected step did not happen in time, so the campaign cannot continue."""


def wait_until(what: str, done: Callable[[], bool], limit_s: float, every_s: float = 0.002) -> None:
    deadline_s = time.monotonic() + limit_s
    while not done():
        if time.monotonic() > deadline_s:
            raise Stuck(f"{what} did not happen within {limit_s:g} s")
        time.sleep(every_s)


class Companion:
    """The sink, a load or a publisher: a module of this package that runs until its stdin is closed."""

    def __init__(self, module: str, *arguments: str, environment: Mapping[str, str] | None = None) -> None:
        self._name = module
        self._process = subprocess.Popen(
            [sys.executable, "-m", f"holdfast.proof.kills.{module}", *arguments],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, **(environment or {})},
        )  # fmt: skip

    def first_line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def send(self, line: str) -> None:
        """Write a line to its standard input."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()

    def check(self) -> None:
        if self._process.poll() is not None:
            raise Stuck(f"the {self._name} process exited unexpectedly")

    def close(self, limit_s: float) -> None:
        """Let it finish; kill it after `limit_s` seconds."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(limit_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()


class Daemon:
    """One daemon process in a home folder: `holdfast up`, or with `settings` the same as a victim (see `victim.py`)."""

    def __init__(
        self, home: Path, log: Path, store: str | None = None, settings: Mapping[str, object] | None = None
    ) -> None:
        self.home, self._log = home, log
        environment = {**os.environ, "HOLDFAST_HOME": str(home)}
        for name in ("HOLDFAST_STORE", "HOLDFAST_CONFIG"):
            environment.pop(name, None)
        if store is not None:
            environment["HOLDFAST_STORE"] = store
        command = [sys.executable, "-m", "holdfast", "up", "--port", "0"]
        if settings is not None:
            command = [sys.executable, "-m", "holdfast.proof.kills.victim"]
            names = {name.upper(): value for name, value in settings.items() if value is not None}
            environment |= {f"HOLDFAST_PROVE_{name}": str(value) for name, value in names.items()}
        self._address = home / "address"
        self._stale = self._stamp()
        with log.open("ab") as file:
            self._start(command, environment, file)

    def _start(self, command: list[str], environment: dict[str, str], file: IO[bytes]) -> None:
        self.started_ns = time.monotonic_ns()
        self._process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=file, stderr=file)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    @property
    def answering(self) -> bool:
        """Whether this process, not an earlier one, has written its address."""
        return self._stamp() not in (None, self._stale)

    def wait_answering(self, limit_s: float = START_S) -> None:
        def ready() -> bool:
            if not self.alive:
                raise Stuck(f"the daemon exited with {self._process.returncode} during its start; see {self._log}")
            return self.answering

        wait_until("the daemon's start", ready, limit_s)

    def kill(self) -> None:
        """SIGKILL the process, and check that this is what ended it."""
        if self.alive:
            os.kill(self.pid, signal.SIGKILL)
        code = self._process.wait(STOP_S)
        if code != -signal.SIGKILL:
            raise Stuck(f"the daemon exited with {code} before it was killed; see {self._log}")

    def signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def wait(self, limit_s: float = STOP_S) -> int:
        return self._process.wait(limit_s)

    def end(self) -> None:
        """End the process if it still runs."""
        if self.alive:
            self._process.kill()
            self._process.wait()

    def _stamp(self) -> int | None:
        try:
            return self._address.stat().st_ino
        except FileNotFoundError:
            return None
