"""A server program on a free port of this machine, started, killed and started again on the same data."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

START_S = 60.0


class ServerProcess:
    """One process that listens on `port`. It is ended by `kill` or `stop`, never by name."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder, self.port = folder, port
        folder.mkdir(parents=True, exist_ok=True)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def launch(self, command: Sequence[str]) -> None:
        """Start it and wait until the port accepts connections."""
        if self.is_running:
            return
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        ends = time.monotonic() + START_S
        while not accepts(self.port):
            if self._process.poll() is not None or time.monotonic() > ends:
                said = (self.folder / "log").read_text("utf-8", "replace")[-1000:]
                raise RuntimeError(f"{command[0]} did not start on port {self.port}: {said}")
            time.sleep(0.01)

    def kill(self) -> None:
        """End it as kill -9 does."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait(START_S)


def accepts(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
