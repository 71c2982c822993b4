"""What a start loads: nobody waits for what is not needed yet. Said in names of modules, not in seconds."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = {
    "aiohappyeyeballs", "apsw", "asyncio", "asyncpg", "cryptography", "django", "fastapi", "httptools", "opentelemetry",
    "psycopg", "pydantic", "sqlite3", "starlette", "uvicorn", "yaml",
}  # fmt: skip

# Runs the command line in this very process, and prints which modules it brought in.
COMMAND = """
import json, sys
from holdfast.__main__ import run
code = run(json.loads(sys.argv[1]))
print(json.dumps([code, sorted({name.partition(".")[0] for name in sys.modules})]))
"""

# Ends the daemon as soon as it has said that it is up.
DAEMON = """
import asyncio, json, os, signal, sys
import holdfast.daemon.run as run
from holdfast.home import find_home

def say(text):
    if "is up" in text:
        print(json.dumps(sorted(sys.modules)))
        os.kill(os.getpid(), signal.SIGTERM)

sys.exit(asyncio.run(run.run_daemon(find_home(), None, 0, None, say)))
"""


def run_code(code: str, home: Path, *arguments: str) -> str:
    env = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], env={**env, "HOLDFAST_HOME": str(home)},
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    return done.stdout.splitlines()[-1]


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (["--help"], 0),
        (["emit", "order.placed"], 0),
        (["status"], 4),
        (["events", "list"], 4),
        (["dlq", "count"], 4),
        (["contracts", "list"], 4),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_command_loads_nothing_that_only_the_daemon_needs(tmp_path: Path, command: list[str], expected: int) -> None:
    code, loaded = json.loads(run_code(COMMAND, tmp_path, json.dumps(command)))
    assert code == expected
    assert not HEAVY & set(loaded)


def test_hook_loads_nothing_before_it_hands_over_to_the_receiver(tmp_path: Path) -> None:
    watch = "import os, sys\n" + f"heavy = {HEAVY!r}\n"
    watch += "os.execv = lambda *_: print(sorted(heavy & set(sys.modules)))\n"
    assert run_code(watch + COMMAND, tmp_path, json.dumps(["hook", "--agent", "claude", "Stop"])).startswith("[0, ")
    done = run_code(watch + COMMAND.replace("print(json", "(json"), tmp_path, json.dumps(["hook", "--agent", "claude"]))
    assert done == "[]"


def test_a_daemon_is_ready_without_the_openapi_document(tmp_path: Path) -> None:
    loaded = set(json.loads(run_code(DAEMON, tmp_path).strip()))
    assert {"uvicorn", "starlette", "holdfast.surfaces.rest.app"} <= loaded
    assert not {"fastapi", "pydantic", "holdfast.surfaces.rest.openapi", "asyncpg"} & loaded


def test_with_webhooks_to_send_certificates_are_read_before_the_duties_start(tmp_path: Path) -> None:
    (tmp_path / "holdfast.yml").write_text(
        "hooks: {subscriptions: [{id: a, contract: {type: {match: t}}, target: {url: 'https://example.com/x'}}]}"
    )
    watch = """
import ssl
import holdfast.daemon.runtime as runtime

class Loop(runtime.Loop):
    def __init__(self, chance):
        super().__init__(chance)
        seen.append("duties")

def read(create=ssl.create_default_context):
    seen.append("certificates")
    return create()

seen, runtime.Loop, ssl.create_default_context = [], Loop, read
"""
    assert run_code(watch + DAEMON.replace("sorted(sys.modules)", "seen"), tmp_path) == '["certificates", "duties"]'


def test_a_wake_up_before_the_store_can_be_reached_is_harmless(tmp_path: Path) -> None:
    home = tmp_path / "home"
    env = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}
    env |= {"HOLDFAST_HOME": str(home), "HOLDFAST_STORE": "postgresql://127.0.0.1:1/nobody"}
    command = [sys.executable, "-u", "-m", "holdfast", "up", "--port", "0"]
    daemon = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert daemon.stdout is not None
    try:
        assert "Waiting for the store" in daemon.stdout.readline()
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.sendto(b"spool", str(home / "holdfast.sock"))
        daemon.terminate()
        said, _ = daemon.communicate(timeout=60)
    finally:
        daemon.kill()
    assert "Traceback" not in said
    assert daemon.returncode == 0
