"""A real daemon in its own process and home, and the real command line."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Self
from urllib.parse import urlsplit

# Long timeouts, not promises: on a busy machine everything is slow, and only a hang should fail.
READY_S = 60.0
STOP_S = 60.0
CLI_S = 120.0
ANSWER_S = 60.0


class Said(NamedTuple):
    """The exit code and output of a command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class Daemon:
    """Use as `with Daemon() as daemon`; it stops what it started.

    `config` is the text of holdfast.yml, `app` a `module:outbox` importable from `cwd`.

        with Daemon(config="egress: {allow: [127.0.0.0/8]}") as daemon:
            status, answer = daemon.request("POST", "/api/events", {"type": "hello.world"})
    """

    def __init__(
        self,
        home: Path | None = None,
        *,
        config: str | None = None,
        app: str | None = None,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        port: int = 0,
    ) -> None:
        self._folder = None if home is not None else tempfile.TemporaryDirectory(prefix="holdfast-test-")
        self.home = home if home is not None else Path(self._folder.name) / "home"  # type: ignore[union-attr]
        self.home.mkdir(mode=0o700, parents=True, exist_ok=True)
        if config is not None:
            (self.home / "holdfast.yml").write_text(config, encoding="utf-8")
        self._app, self._cwd, self._port = app, cwd, port
        self.env = clean_env(self.home, {**({"PYTHONPATH": _path_with(cwd)} if cwd else {}), **(env or {})})
        self._log = self.home.with_name(self.home.name + ".log")
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self if self._process is not None else self.start()

    def __exit__(self, *exception: object) -> None:
        if self._process is not None:
            self.kill9()
        if self._folder is not None:
            self._folder.cleanup()

    def start(self) -> Self:
        """Start it and wait until it is ready."""
        self.launch()
        try:
            self.wait_ready()
        except BaseException:
            self.kill9()
            raise
        return self

    def launch(self) -> Self:
        """Start it without waiting."""
        assert self._process is None, "it runs already"
        (self.home / "address").unlink(missing_ok=True)  # a killed daemon leaves its old address file
        command = [sys.executable, "-m", "holdfast", "up", "--port", str(self._port)]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                command + (["--app", self._app] if self._app else []),
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self.env, cwd=self._cwd or self.home,
                start_new_session=True,
            )  # fmt: skip
        return self

    def wait_ready(self) -> None:
        wait_until(self._is_ready, READY_S, lambda: f"the daemon is not ready:\n{self.log}")

    @property
    def pid(self) -> int:
        assert self._process is not None, "it does not run"
        return self._process.pid

    @property
    def url(self) -> str:
        return (self.home / "address").read_text(encoding="utf-8").strip()

    @property
    def token(self) -> str:
        return (self.home / "token").read_text(encoding="utf-8").strip()

    @property
    def log(self) -> str:
        """All output so far, stdout and stderr, of all its runs."""
        return self._log.read_text(encoding="utf-8", errors="replace") if self._log.exists() else ""

    def request(
        self, method: str, path: str, body: Any = None, *, token: str | None = None, headers: Mapping[str, str] = {}
    ) -> tuple[int, Any]:
        """Send one request. Returns the status and the JSON of the response, or its text."""
        given = {"Authorization": f"Bearer {token or self.token}", "Content-Type": "application/json", **headers}
        raw = None if body is None and method in ("GET", "DELETE") else json.dumps(body).encode()
        return fetch(self.url, method, path, raw, given)

    def cli(self, *arguments: str, input: str | None = None, env: Mapping[str, str] | None = None) -> Said:
        """Run `holdfast …` against it."""
        return run_cli(self.home, *arguments, input=input, env={**self.env, **(env or {})}, cwd=self._cwd)

    def kill9(self) -> None:
        """SIGKILL."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(STOP_S)
            self._process = None

    def stop(self) -> int:
        """Stop it with SIGTERM. Returns its exit code."""
        assert self._process is not None, "it does not run"
        self._process.send_signal(signal.SIGTERM)
        try:
            code = self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.kill9()
            raise AssertionError(f"the daemon did not stop in {STOP_S:g} s:\n{self.log}") from None
        self._process = None
        return code

    def restart(self) -> Self:
        if self._process is not None:
            self.stop()
        return self.start()

    def wait_for(self, path: str, until: Callable[[Any], bool], timeout_s: float = ANSWER_S) -> Any:
        """Repeat a request until the response fulfils the condition. Returns that response."""
        answer: Any = None

        def look() -> bool:
            nonlocal answer
            answer = self.request("GET", path)[1]
            return until(answer)

        wait_until(look, timeout_s, lambda: f"{path} still answers {answer}\n{self.log}")
        return answer

    def _is_ready(self) -> bool:
        assert self._process is not None
        if self._process.poll() is not None:
            raise AssertionError(f"the daemon ended with {self._process.returncode}:\n{self.log}")
        try:
            return fetch(self.url, "GET", "/readyz", None, {})[0] == 200
        except OSError:
            return False


def wait_until(look: Callable[[], bool], timeout_s: float, why: Callable[[], str]) -> None:
    """Poll until the condition holds, for a limited time."""
    ends = time.monotonic() + timeout_s
    while not look():
        if time.monotonic() > ends:
            raise AssertionError(why())
        time.sleep(0.01)


def fetch(url: str, method: str, path: str, raw: bytes | None, headers: Mapping[str, str]) -> tuple[int, Any]:
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=ANSWER_S)
    try:
        connection.request(method, path, raw, dict(headers))
        response = connection.getresponse()
        text = response.read().decode("utf-8")
    finally:
        connection.close()
    try:
        return response.status, json.loads(text)
    except ValueError:
        return response.status, text


def run_cli(
    home: Path,
    *arguments: str,
    input: str | None = None,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> Said:
    """Run the real `holdfast` command in a home."""
    done = subprocess.run(
        [sys.executable, "-m", "holdfast", *arguments],
        input=(input or "").encode(), capture_output=True, env=clean_env(home, env), cwd=cwd, timeout=CLI_S,
        check=False,
    )  # fmt: skip
    return Said(done.returncode, done.stdout.decode(), done.stderr.decode())


def clean_env(home: Path, more: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment without variables that refer to the user's own Holdfast."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}
    return {**kept, "PYTHONUNBUFFERED": "1", **(more or {}), "HOLDFAST_HOME": str(home)}


def _path_with(folder: Path) -> str:
    """A PYTHONPATH with the folder first, then the paths of the tests: the daemon must use the same source."""
    return os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])


SHOP = """
import os
from holdfast import Outbox, Reject, RetryAfter

outbox = Outbox("sqlite:///" + os.environ["HOLDFAST_HOME"] + "/holdfast.db")


@outbox.on("order.*")
def ship(event):
    pass


@outbox.on("bad.*")
def refuse(event):
    raise Reject("no such customer")


@outbox.on("slow.*", policy="patient")
def later(event):
    raise RetryAfter(3600)
"""


def shop(
    folder: Path,
    *,
    home: Path | None = None,
    config: str = "egress: {allow: [127.0.0.0/8]}\n",
    env: Mapping[str, str] | None = None,
) -> Daemon:
    """A daemon with an application whose handlers succeed (order.*), reject (bad.*) and retry later (slow.*)."""
    (folder / "shop.py").write_text(SHOP, encoding="utf-8")
    return Daemon(home or folder / "home", app="shop:outbox", cwd=folder, config=config, env=env)
