"""The agents' own programs, wired by us, against a model on this machine: `make agents`.

They are large, so they are not part of `make test`; without them these tests are left out.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from daemon import Daemon
from holdfast.operations.doctor.agents import read_version

sys.path.insert(0, str(Path(__file__).parent))
from model import ANSWER, COMMAND, Model
from programs import MODULES, PROGRAMS, Program, User

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not MODULES.is_dir(), reason="run by: make agents")]

every_program = pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
PINNED = json.loads(Path(__file__).with_name("package.json").read_text())["dependencies"]


@pytest.fixture
def model() -> Iterator[Model]:
    made = Model()
    yield made
    made.close()


@pytest.fixture
def user(tmp_path: Path, model: Model) -> User:
    return User(tmp_path / "user", model.url)


@pytest.fixture
def daemon(tmp_path: Path, user: User) -> Iterator[Daemon]:
    with Daemon(tmp_path / "home", env={"HOME": str(user.home)}) as daemon:
        yield daemon


def cli(daemon: Daemon, user: User, program: Program, *words: str) -> Any:
    said = daemon.cli(*words, "--json", env=user.env(program))
    assert said.code == 0, said.err
    return said.json


def look(daemon: Daemon, user: User, program: Program) -> dict[str, Any]:
    return dict(cli(daemon, user, program, "hooks", "status", "--agent", program.name)["agents"][0])


def events_of(daemon: Daemon, source: str) -> list[dict[str, Any]]:
    items = daemon.request("GET", f"/api/events?source={source}&limit=200")[1]["items"]
    return sorted(items, key=lambda event: (event["stream"], event["seq"]))


def only_session(daemon: Daemon, program: Program) -> dict[str, Any]:
    """The one session there is, once it came to its end."""
    page = daemon.wait_for(
        "/api/sessions", lambda page: any(item["state"] == program.ends for item in page["items"]), 30.0
    )
    (session,) = page["items"]
    return dict(session)


@every_program
def test_a_turn_becomes_events_from_start_to_end_and_is_not_disturbed(
    program: Program, user: User, daemon: Daemon
) -> None:
    mine = user.prepare(program)
    without = user.run(program)
    before = {name: (user.home / name).read_bytes() for name in mine}
    cli(daemon, user, program, "hooks", "install", "--tools", "--dry-run")
    assert look(daemon, user, program)["state"] == "not installed"
    cli(daemon, user, program, "hooks", "install", "--tools", "--agent", program.name)
    assert user.run(program) == without  # it ends and says the same, hooks or not

    session = only_session(daemon, program)
    assert (session["agent"], session["cwd"]) == (program.name, str(user.work))
    assert (session["last_prompt"], session["last_answer"]) == (program.prompt, ANSWER)
    assert session["title"] == program.title
    events = events_of(daemon, "hook")
    assert tuple(event["properties"]["event_type"] for event in events) == program.events
    assert {event["properties"]["agent"] for event in events} == {program.name}
    assert (session["transcript"] is not None) == program.transcript
    if program.transcript:
        daemon.wait_for("/api/events?type=agent.output", lambda page: len(page["items"]) == 2)
        output = [daemon.request("GET", f"/api/events/{event['id']}")[1] for event in events_of(daemon, "agent")]
        said = [event["payload"]["text"] for event in output if event["type"] == "agent.output"]
        assert said[0].endswith(COMMAND)
        assert said[1] == ANSWER

    wired = look(daemon, user, program)
    assert wired["state"] == ("installed but not trusted" if program.name == "codex" else "installed")
    assert wired["last_event_at"] is not None
    cli(daemon, user, program, "hooks", "uninstall")
    assert look(daemon, user, program)["state"] == "not installed"
    assert {name: (user.home / name).read_bytes() for name in mine} == before
    if not program.rewrites:
        assert not [path for path in user.home.rglob("*holdfast*") if "node_modules" not in path.parts]


def test_events_of_claude_without_a_daemon_are_imported_when_one_starts(user: User, daemon: Daemon) -> None:
    program = PROGRAMS["claude"]
    user.prepare(program)
    cli(daemon, user, program, "hooks", "install", "--tools", "--agent", "claude")
    daemon.stop()
    user.run(program)
    daemon.start()
    session = only_session(daemon, program)
    assert (session["title"], session["last_answer"]) == (program.title, ANSWER)
    assert tuple(event["properties"]["event_type"] for event in events_of(daemon, "hook")) == program.events


def test_codex_reports_the_end_of_turns_before_its_hooks_are_trusted_and_everything_after(
    user: User, daemon: Daemon
) -> None:
    """The hashes that Codex itself computes are the ones by which we judge, and the trust is the user's to give."""
    program = PROGRAMS["codex"]
    user.prepare(program)
    trusting = Program("codex", program.path, tuple(w for w in program.words if not w.startswith("--danger")))
    cli(daemon, user, program, "hooks", "install", "--tools", "--agent", "codex")
    user.run(trusting)
    daemon.wait_for("/api/events?source=hook", lambda page: len(page["items"]) == 1)
    assert [event["properties"]["native_event"] for event in events_of(daemon, "hook")] == ["agent-turn-complete"]
    assert look(daemon, user, program)["state"] == "installed but not trusted"

    hooks = list_hooks(user, program)
    assert {hook["trustStatus"] for hook in hooks} == {"untrusted"}
    config = user.home / ".codex" / "config.toml"
    trust = [f'[hooks.state."{hook["key"]}"]\ntrusted_hash = "{hook["currentHash"]}"\n' for hook in hooks]
    config.write_text(config.read_text() + "\n" + "\n".join(trust))
    assert look(daemon, user, program)["state"] == "installed"
    user.run(trusting)
    page = daemon.wait_for("/api/events?source=hook", lambda page: len(page["items"]) == 1 + len(program.events))
    assert len({event["stream"] for event in page["items"]}) == 2


def list_hooks(user: User, program: Program) -> list[dict[str, Any]]:
    """What Codex itself says of its hooks."""
    asked = [
        {"id": 1, "method": "initialize", "params": {"clientInfo": {"name": "holdfast", "version": "0"}}},
        {"method": "initialized"},
        {"id": 2, "method": "hooks/list", "params": {"cwds": [str(user.work)]}},
    ]
    server = subprocess.Popen(
        [str(user.bin / "codex"), "app-server"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, text=True, env=user.env(program), cwd=user.work,
    )  # fmt: skip
    assert server.stdin is not None
    assert server.stdout is not None
    try:
        server.stdin.write("".join(json.dumps(each) + "\n" for each in asked))
        server.stdin.flush()
        for line in server.stdout:
            answer = json.loads(line)
            if answer.get("id") == 2:
                return list(answer["result"]["data"][0]["hooks"])
        raise AssertionError("codex app-server ended without an answer")
    finally:
        server.kill()
        server.wait(30)
        server.stdin.close()
        server.stdout.close()


@every_program
def test_doctor_names_the_version_of_the_cli(program: Program, user: User, daemon: Daemon) -> None:
    user.prepare(program)
    cli(daemon, user, program, "hooks", "install", "--agent", program.name)
    said = daemon.cli("doctor", "--json", env=user.env(program))
    found = next(each for each in said.json["findings"] if each["id"] == f"agent.{program.name}")
    (wanted,) = (version for name, version in PINNED.items() if program.name in name)
    assert found["text"].startswith(f"{program.name} {wanted}: installed")


def test_the_version_of_a_package_is_read_without_starting_it() -> None:
    assert read_version(PROGRAMS["gemini"].find(), ("gemini",)) == PINNED["@google/gemini-cli"]
