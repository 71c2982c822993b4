"""A tmux server and agents of the proof, each ended by it."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from holdfast.agents.receiver import receiver
from holdfast.agents.registry import AGENTS
from holdfast.proof.kills.processes import Stuck

WAIT_S = 60.0
RECEIVER = [sys.executable, "-I", "-S", receiver.__file__]
CLI = next(agent for agent in AGENTS if agent.stand_in)


class TmuxServer:
    """A tmux server with its own socket. `close` ends it."""

    def __init__(self) -> None:
        if shutil.which("tmux") is None:
            raise Stuck("tmux is not installed; messages are typed into its panes: apt-get install tmux")
        self.folder = Path(tempfile.mkdtemp(prefix="hf-tmux-"))  # the path of a socket must be short
        self.socket = str(self.folder / "s")
        self.start()

    def start(self) -> None:
        self.run("new-session", "-d", "-s", "first", "-x", "120", "-y", "40", "sleep 100000")
        self.run("set-option", "-g", "remain-on-exit", "on")

    def run(self, *words: str) -> str:
        done = self._call(*words)
        if done.returncode:
            raise Stuck(f"tmux {' '.join(words)[:200]}: {done.stderr.decode(errors='replace')}")
        return done.stdout.decode()

    def open(self, *command: str, env: Mapping[str, str] = {}, cwd: Path | None = None) -> str:
        """Run a command in a new window. Returns its pane."""
        variables = [word for name, value in env.items() for word in ("-e", f"{name}={value}")]
        folder = ["-c", str(cwd)] if cwd else []
        answer = self.run("new-window", "-d", "-P", "-F", "#{pane_id}", *folder, *variables, *command)
        return answer.strip()

    def show(self, pane: str) -> str:
        return self.run("capture-pane", "-p", "-t", pane)

    @property
    def pid(self) -> int:
        return int(self.run("display-message", "-p", "#{pid}"))

    def kill9(self) -> None:
        """Kill the server itself. Its programs lose their terminals."""
        os.kill(self.pid, signal.SIGKILL)
        ends = time.monotonic() + WAIT_S
        while self._call("display-message", "-p", "x").returncode == 0:
            if time.monotonic() > ends:
                raise Stuck("the tmux server is still there after kill -9")
            time.sleep(0.01)

    def close(self) -> None:
        self._call("kill-server")
        shutil.rmtree(self.folder, ignore_errors=True)

    def _call(self, *words: str) -> subprocess.CompletedProcess[bytes]:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("TMUX")}
        command = ["tmux", "-u", "-S", self.socket, "-f", "/dev/null", *words]
        return subprocess.run(command, capture_output=True, timeout=WAIT_S, env=environment, check=False)


class Agent:
    """A stand-in agent in a pane. `log` survives its lives."""

    def __init__(self, server: TmuxServer, home: Path, name: str = "s1", **options: Any) -> None:
        self.server, self.home, self.name = server, home, name
        self.session_id = f"{CLI.name}-{name}"
        self._log, self._control = server.folder / f"{name}.log", server.folder / f"{name}.control"
        self._log.touch()
        self.start(**options)

    def start(self, shell: bool = False, **options: Any) -> None:
        """Start it, or start it again in a new pane; directly, or from a shell that is left when it ends."""
        self._seen = len(self.log())
        command = self.command(**options)
        if not shell:
            self.pane = self.server.open(*command, cwd=self.server.folder)
            return
        self.pane = self.server.open("sh", "-i", cwd=self.server.folder)
        script = self.server.folder / f"{self.name}.sh"
        script.write_text(shlex.join(command), encoding="utf-8")
        self.server.run("send-keys", "-t", self.pane, f". {script}", "Enter")

    def command(self, **options: Any) -> list[str]:
        given = {
            "home": self.home, "session": self.name, "log": self._log, "control": self._control,
            "receiver": "\x1f".join(RECEIVER), **options,
        }  # fmt: skip
        words = [word for name, value in given.items() for word in _option(name, value)]
        return [sys.executable, "-S", _script(CLI.stand_in), *words]

    def wait_started(self) -> None:
        ends = time.monotonic() + WAIT_S
        while not any("started" in entry for entry in self.log()[self._seen :]):
            if time.monotonic() > ends:
                raise Stuck(f"the agent did not start:\n{self.server.show(self.pane)}")
            time.sleep(0.02)

    def do(self, what: str, **more: Any) -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.sendto(json.dumps({"do": what, **more}).encode(), str(self._control))

    def log(self) -> list[dict[str, Any]]:
        text = self._log.read_text(encoding="utf-8")
        return [json.loads(line) for line in text.split("\n") if line]

    def logged(self, key: str) -> list[Any]:
        return [entry[key] for entry in self.log() if key in entry]

    @property
    def prompts(self) -> list[str]:
        return self.logged("prompt")

    @property
    def pid(self) -> int:
        return int(self.logged("started")[-1])


def _script(module: str) -> str:
    spec = find_spec(module)
    assert spec is not None
    return str(spec.origin)


def _option(name: str, value: object) -> list[str]:
    return [f"--{name}"] if value is True else [f"--{name}", str(value)]
