"""A daemon in its own process, with the benchmark's application, whose handler reports its calls over a socket."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

from benchmarks.orders import ROOT, Failed

READY_S = 60.0
CALL_S = 60.0


class Daemon:
    """A context manager that stops the daemon on exit. `app`: the application it runs, if any."""

    def __init__(
        self,
        folder: Path,
        store: str,
        config: str = "",
        *,
        app: str | None = "benchmarks.app:outbox",
        env: Mapping[str, str] | None = None,
    ) -> None:
        self._app = app
        self._folder = Path(tempfile.mkdtemp(prefix="home-", dir=folder))
        self.home = self._folder / "home"
        self.home.mkdir(mode=0o700)
        (self.home / "holdfast.yml").write_text(config)
        (self.home / "holdfast.yml").chmod(0o600)
        self._ear_path = str(self._folder / "ear")
        self._ear = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._ear.bind(self._ear_path)
        self._ear.settimeout(CALL_S)
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("HOLDFAST_", "PG"))}
        self._env = {
            **kept,
            "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}",
            "PYTHONDONTWRITEBYTECODE": "",  # let Python write bytecode: a start must not include compiling
            "PYTHONPYCACHEPREFIX": str(self._folder / "compiled"),
            "HOLDFAST_HOME": str(self.home),
            "HOLDFAST_STORE": store,
            "BENCH_STORE": store,
            "BENCH_LISTENER": self._ear_path,
            **(env or {}),
        }
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.kill()
        self._ear.close()

    def start(self) -> int:
        """Start the daemon. Returns the start time in nanoseconds of the monotonic clock, which all processes share."""
        (self.home / "address").unlink(missing_ok=True)
        command = [sys.executable, "-m", "holdfast", "up", "--port", "0"]
        command += ["--app", self._app] if self._app else []
        with (self._folder / "log").open("ab") as log:
            began_ns = time.monotonic_ns()
            self._process = subprocess.Popen(
                command, env=self._env, cwd=self._folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        return began_ns

    @property
    def pid(self) -> int:
        if self._process is None:
            raise Failed("the daemon is not running")
        return self._process.pid

    @property
    def url(self) -> str:
        return (self.home / "address").read_text().strip()

    def wait_ready(self) -> None:
        ends = time.monotonic() + READY_S
        while not (self.home / "address").exists():
            if self._process is None or self._process.poll() is not None or time.monotonic() > ends:
                raise Failed(f"the daemon did not start: {self._log()}")
            time.sleep(0.01)

    def wait_settled(self) -> None:
        """Wait until the daemon answers and has loaded everything that a start defers."""
        self.wait_ready()
        rest = self.connect()
        rest.status()
        rest.close()

    def next_call(self) -> tuple[int, str]:
        """Wait for the next handler call. Returns its time and event id."""
        try:
            at_ns, id = self._ear.recv(200).decode().split()
        except TimeoutError:
            raise Failed(f"the handler was not called within {CALL_S:g} s: {self._log()}") from None
        return int(at_ns), id

    def discard_calls(self) -> None:
        """Discard the reported calls that were not read."""
        self._ear.setblocking(False)
        try:
            while True:
                self._ear.recv(200)
        except BlockingIOError:
            pass
        self._ear.settimeout(CALL_S)

    def stop(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            self._process.wait(60)
            self._process = None

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(30)
            self._process = None

    def connect(self) -> Rest:
        return Rest(self.url, (self.home / "token").read_text().strip())

    def _log(self) -> str:
        path = self._folder / "log"
        return path.read_text(errors="replace")[-300:] if path.exists() else "it left no log"


class Rest:
    """One kept-alive connection to the daemon's API."""

    def __init__(self, url: str, token: str) -> None:
        self._connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=30)
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}

    def publish(self, type: str, payload: object) -> str:
        self._connection.request(
            "POST", "/api/events", json.dumps({"type": type, "payload": payload}).encode(), self._headers
        )
        response = self._connection.getresponse()
        answer = json.loads(response.read())
        if response.status not in (200, 201, 202):
            raise Failed(f"the daemon answered {response.status}: {answer}")
        return str(answer["id"])

    def status(self) -> dict[str, Any]:
        """Request the status. The first request other than publishing an event loads the heavier routes."""
        self._connection.request("GET", "/api/status", headers=self._headers)
        answer: dict[str, Any] = json.loads(self._connection.getresponse().read())
        return answer

    def close(self) -> None:
        self._connection.close()
