"""Worker processes on one store, whose ordered handler writes a line for each event."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Self

from daemon import wait_until

PROGRAM = Path(__file__).parent / "failover_worker.py"
WAIT_S = 60.0


class Workers:
    """A context manager: the processes are killed at its end."""

    def __init__(self, url: str, notes: Path) -> None:
        self._url, self._notes = url, notes
        self.started: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Kill those that run."""
        for worker in self.started:
            worker.kill()
            worker.wait()

    def start(self, seconds: float = 0.0) -> subprocess.Popen[bytes]:
        """`seconds`: how long the handler takes."""
        worker = subprocess.Popen([sys.executable, str(PROGRAM), self._url, str(self._notes), str(seconds)])
        self.started.append(worker)
        wait_until(lambda: f"{worker.pid} works" in self.text, WAIT_S, lambda: f"no start: {self.text}")
        return worker

    @property
    def text(self) -> str:
        return self._notes.read_text() if self._notes.exists() else ""

    def runs(self) -> Counter[int]:
        """How many events each process has handled."""
        return Counter(int(line.split()[0]) for line in self.text.splitlines() if " works " not in line)
