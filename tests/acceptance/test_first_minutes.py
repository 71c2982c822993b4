"""The first ten minutes of each persona: the blocks of README.md, typed into a shell one after another."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
ENDED = "--- ended"
READY = {
    "holdfast up": "until holdfast status > /dev/null 2>&1; do sleep 0.1; done",
    "holdfast listen": "until (exec 3<> /dev/tcp/127.0.0.1/$LISTEN_PORT) 2> /dev/null; do sleep 0.1; done",
}
"""A person needs longer to type the next command than these need to start; a script has to wait for them."""
STEP_S = 120


def section(title: str) -> str:
    found = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## )", README, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


def blocks(title: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", section(title), re.MULTILINE | re.DOTALL)


class Shell:
    """bash in an empty home folder, with `holdfast` and `python` of this environment on the path."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        home = folder / ".local" / "state" / "holdfast"
        home.mkdir(mode=0o700, parents=True)
        (home / "holdfast.yml").write_text(f"server: {{port: {free_port()}}}\n")  # another test may use the default one
        self.listen_port = str(free_port())
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("HOLDFAST_", "XDG_"))}
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        given = {"HOME": str(folder), "PATH": path, "LISTEN_PORT": self.listen_port, "PYTHONUNBUFFERED": "1"}
        self._bash = subprocess.Popen(
            ["bash", "--norc", "--noprofile"], cwd=folder, env={**kept, **given}, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip

    def type(self, line: str) -> str:
        """Run one line. Returns what was printed until it ended, with what runs in the background meanwhile."""
        assert self._bash.stdin is not None
        assert self._bash.stdout is not None
        waits = next((wait for start, wait in READY.items() if line.startswith(start)), ":")
        wait = waits if line.split("#")[0].rstrip().endswith("&") else ":"
        self._bash.stdin.write(f"{line}\ncode=$?; {wait}; echo; echo '{ENDED}' $code\n")
        self._bash.stdin.flush()
        printed = ""
        for text in self._bash.stdout:
            if text.startswith(ENDED):
                assert text.split()[-1] == "0", f"{line} ended with {text.split()[-1]}:\n{printed}"
                return printed
            printed += text
        raise AssertionError(f"the shell ended during {line}:\n{printed}")

    def follow(self, title: str, number: int | None = None) -> dict[str, str]:
        """Type the commands of a section, or of one of its blocks. Returns what each of them printed."""
        chosen = blocks(title, "console") if number is None else [blocks(title, "console")[number]]
        lines = re.findall(r"^\$ (.*)$", "\n".join(chosen), re.MULTILINE)
        assert lines
        return {line.split("#")[0].strip(): self.type(line.replace("4654", self.listen_port)) for line in lines}

    def close(self) -> None:
        assert self._bash.stdin is not None
        assert self._bash.stdout is not None
        os.killpg(self._bash.pid, signal.SIGTERM)  # with all that it started
        self._bash.wait(STEP_S)
        self._bash.stdin.close()
        self._bash.stdout.close()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as one:
        return int(one.getsockname()[1])


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    one = Shell(tmp_path)
    yield one
    one.close()


@pytest.mark.timeout(300)
def test_who_runs_agents_sees_a_session(shell: Shell) -> None:
    settings = shell.folder / ".claude" / "settings.json"
    settings.parent.mkdir()
    settings.write_text('{"model": "opus"}')
    (shell.folder / ".codex").mkdir()
    before = settings.read_bytes()
    printed = shell.follow("I run coding agents")
    assert "trust" in printed["holdfast hooks install"]
    hook = json.loads(settings.read_text())["hooks"]["Stop"][0]["hooks"][0]["command"]
    payload = {
        "session_id": "s1",
        "hook_event_name": "Stop",
        "last_assistant_message": "All tests pass.",
        "cwd": "/src",
    }
    shell.type(f"echo '{json.dumps(payload)}' | {hook}")
    shell.type("until holdfast sessions --json | grep -q claude-s1; do sleep 0.1; done")
    assert "All tests pass." in shell.type("holdfast sessions show claude-s1 --json")
    shell.type("holdfast hooks uninstall")
    assert settings.read_bytes() == before


@pytest.mark.timeout(300)
def test_who_writes_a_backend_gets_an_order_shipped_and_a_signed_webhook(shell: Shell) -> None:
    (program,) = blocks("I write a backend", "python")
    (shell.folder / "shop.py").write_text(program, encoding="utf-8")
    shell.follow("I write a backend", 0)
    shell.type("until holdfast deliveries list --state delivered | grep -q handler:ship; do sleep 0.1; done")
    orders = json.loads(shell.type("holdfast events list --type order.placed --json"))["items"]
    assert [order["payload"] for order in orders] == [{"item": "tea"}], "importing the application adds no order"
    printed = shell.follow("I write a backend", 1)
    assert "answered 200" in printed["holdfast contracts ping orders"]
    assert "signature: verified" in "".join(printed.values())
    two = "holdfast deliveries list --contract orders --json | grep -c delivered | grep -q 2"
    shell.type(f"until {two}; do sleep 0.1; done")


@pytest.mark.timeout(300)
def test_who_operates_it_sees_that_all_is_well(shell: Shell) -> None:
    printed = shell.follow("I operate it")
    assert "healthy" in printed["holdfast status"]
    assert "0 failures" in printed["holdfast doctor"]
    assert "Receipts are intact" in printed["holdfast receipts verify"]
    assert re.search(r"http://127\.0\.0\.1:\d+/login\?code=", printed["holdfast open --print"])
    assert json.loads(shell.type("holdfast dlq count --json"))["count"] == 0
