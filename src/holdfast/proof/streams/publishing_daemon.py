"""A daemon that publishes to sinks, in a process and a home of its own, and the load that appends events to it."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from random import Random
from urllib.parse import quote, urlsplit

from holdfast.domain.json_value import KnownJson
from holdfast.proof.streams.judge import Stored

READY_S = 60.0
PAGE = 1000


class PublishingDaemon:
    """`start`, `kill` (as kill -9), `start` again, `stop`."""

    def __init__(self, folder: Path, sinks: list[Mapping[str, object]]) -> None:
        self.home, self._log = folder / "home", folder / "daemon.log"
        self.home.mkdir(parents=True, mode=0o700)
        config = {"streams": {"sinks": sinks}}
        (self.home / "holdfast.yml").write_text(json.dumps(config), encoding="utf-8")
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> str:
        return self._log.read_text("utf-8", "replace")[-5000:] if self._log.exists() else ""

    def start(self) -> None:
        (self.home / "address").unlink(missing_ok=True)
        kept = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "holdfast", "up", "--port", "0"],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.home,
                env={**kept, "HOLDFAST_HOME": str(self.home)}, start_new_session=True,
            )  # fmt: skip
        ends = time.monotonic() + READY_S
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > ends:
                raise RuntimeError(f"the daemon did not start:\n{self.log}")
            time.sleep(0.02)

    def kill(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait(READY_S)

    def request(self, method: str, path: str, body: KnownJson = None) -> tuple[int, KnownJson]:
        """One request. Raises OSError while the daemon does not answer."""
        url = (self.home / "address").read_text().strip()
        token = (self.home / "token").read_text().strip()
        connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=READY_S)
        try:
            raw = None if body is None else json.dumps(body)
            headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
            connection.request(method, path, raw, headers)
            response = connection.getresponse()
            return response.status, json.loads(response.read())
        except http.client.HTTPException as error:
            raise ConnectionError(str(error)) from error
        finally:
            connection.close()

    def stored(self, stream: str) -> list[Stored]:
        """The events of a stream, as the store holds them."""
        events: list[Stored] = []
        while True:
            path = f"/api/streams/{quote(stream, safe='')}/events?after={len(events)}&limit={PAGE}"
            status, page = self.request("GET", path)
            if status == 404:
                return events
            events += [Stored(item["id"], item["seq"]) for item in page["items"]]
            if page["next"] is None:
                return events

    def lag(self) -> int:
        """Events that the sinks have not confirmed yet."""
        _, page = self.request("GET", "/api/readers")
        return sum(reader["lag_events"] for reader in page["items"])

    def _answers(self) -> bool:
        with contextlib.suppress(OSError, ValueError):
            return self.request("GET", "/api/readers")[0] == 200
        return False


class Load:
    """Threads that append events to a few streams, and note which were accepted."""

    def __init__(self, daemon: PublishingDaemon, streams: list[str], seed: int, writers: int = 3) -> None:
        self._daemon, self._streams, self._seed, self._writers = daemon, streams, seed, writers
        self.accepted: dict[str, list[str]] = {stream: [] for stream in streams}
        self._lock, self._ending, self._paused = threading.Lock(), threading.Event(), threading.Event()
        self._threads: list[threading.Thread] = []

    @property
    def count(self) -> int:
        with self._lock:
            return sum(map(len, self.accepted.values()))

    def start(self) -> None:
        for number in range(self._writers):
            thread = threading.Thread(target=self._append, args=(Random(f"{self._seed}/{number}"),), daemon=True)
            thread.start()
            self._threads.append(thread)

    def pause(self) -> None:
        self._paused.set()

    def resume(self) -> None:
        self._paused.clear()

    def stop(self) -> None:
        self._ending.set()
        for thread in self._threads:
            thread.join(READY_S)

    def _append(self, random: Random) -> None:
        while not self._ending.is_set():
            if self._paused.is_set():
                time.sleep(0.05)
                continue
            stream = random.choice(self._streams)
            body = {"type": "proof.step", "stream": stream, "payload": {"text": "x" * random.randrange(2000)}}
            try:
                status, answer = self._daemon.request("POST", "/api/events", body)
            except (OSError, ValueError):
                time.sleep(0.02)
                continue
            if status == 201:
                with self._lock:
                    self.accepted[stream].append(answer["id"])
