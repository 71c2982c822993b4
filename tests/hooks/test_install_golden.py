"""What is written for each CLI, in full; and every command that is written runs."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from holdfast.agents.install.environment import (
    GUARD,
    Environment,
    fastest_receiver,
    is_own,
    python_receiver,
    split_line,
)
from holdfast.agents.registry import hook_format
from holdfast.ingress.spool import read_record
from installing import AGENTS, JSON_FILES, make_environment, make_installer

GOLDEN = Path(__file__).with_name("install_golden")
FILES = {**JSON_FILES, "opencode": ".config/opencode/plugin/holdfast.js", "codex notify": ".codex/config.toml"}
PER_CHUNK = {"MessageDisplay", "AfterModel", "BeforeModel", "BeforeToolSelection", "PreCompress", "WorktreeCreate"}


def wired(environment: Environment, name: str, tools: bool) -> str:
    make_installer(environment).install([name.split()[0]], tools=tools)
    text = (environment.home / FILES[name]).read_text()
    return text.replace(environment.python, "/opt/holdfast/bin/python").replace(
        str(Path(environment.receiver).parents[3]), "/opt/holdfast/lib"
    )


@pytest.mark.parametrize("tools", [False, True], ids=["lifecycle", "tools"])
@pytest.mark.parametrize("name", FILES)
def test_the_written_files_of_each_cli(tmp_path: Path, name: str, tools: bool) -> None:
    kept = GOLDEN / f"{name.replace(' ', '-')}{'-tools' if tools else ''}{Path(FILES[name]).suffix}"
    assert wired(make_environment(tmp_path), name, tools) == kept.read_text()


@pytest.mark.parametrize("name", AGENTS)
def test_no_event_that_fires_for_every_chunk_is_installed(tmp_path: Path, name: str) -> None:
    environment = make_environment(tmp_path)
    make_installer(environment).install([name], tools=True)
    assert not PER_CHUNK & set(make_installer(environment).status([name]).agents[0].events)


@pytest.mark.parametrize("tools", [False, True], ids=["lifecycle", "tools"])
@pytest.mark.parametrize("name", AGENTS)
def test_a_cli_that_reports_subagents_reports_their_start_and_their_end(tmp_path: Path, name: str, tools: bool) -> None:
    environment = make_environment(tmp_path)
    make_installer(environment).install([name], tools=tools)
    events = hook_format(name).events
    wired = [events[event] for event in make_installer(environment).status([name]).agents[0].events if event in events]
    known = {native.event_type for native in events.values()} & {"subagent_start", "subagent_stop"}
    assert known <= {native.event_type for native in wired}


def commands(value: Any) -> list[list[str]]:
    """Every command line in a file, as words."""
    if isinstance(value, list):
        return [command for item in value for command in commands(item)]
    if not isinstance(value, dict):
        return []
    command_line = value.get("command") or value.get("bash")
    if isinstance(command_line, str):
        return [split_line(command_line)]
    return [command for item in value.values() for command in commands(item)]


def written(environment: Environment, name: str) -> list[list[str]]:
    text = (environment.home / FILES[name]).read_text()
    if name == "codex notify":
        return [tomllib.loads(text)["notify"]]
    if name == "opencode":
        match = re.search(r"^const command = (.*)$", text, re.MULTILINE)
        assert match is not None
        return [json.loads(match[1])]
    return commands(json.loads(text))


@pytest.mark.parametrize("program", [python_receiver(), fastest_receiver()], ids=["slow", "quickest"])
@pytest.mark.parametrize("name", FILES)
def test_every_command_that_is_written_reaches_the_spool(tmp_path: Path, name: str, program: tuple[str, ...]) -> None:
    """The real receiver, the one that works everywhere and the quickest one; a run for each different command."""
    agent = name.split()[0]
    environment = Environment(tmp_path, {}, tmp_path, sys.executable, program, str(tmp_path / "a home"))
    make_installer(environment).install([agent], tools=True)
    lines = {tuple(command) for command in written(environment, name)}
    assert lines
    for command in lines:
        assert is_own(command)
        guard = () if name in ("codex notify", "opencode") else GUARD
        start = (*guard, *program, "--agent", agent, "--home", str(tmp_path / "a home"))
        assert command[: len(start)] == start
    payload = b'{"session_id": "s1", "hook_event_name": "Stop"}'
    argument = [payload.decode()] if name == "codex notify" else []
    for command in lines:
        done = subprocess.run(
            [*command, *argument], input=b"" if argument else payload, capture_output=True, timeout=30, check=False,
            env={"PATH": os.environ["PATH"]}, cwd=tmp_path,
        )  # fmt: skip
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    records = [read_record(path) for path in (tmp_path / "a home" / "spool").glob("*.evt")]
    assert len(records) == len(lines)
    assert {header["agent"] for header, _ in records} == {agent}
    assert {body for _, body in records} == {payload}
    if name == "copilot":
        assert {header["event"] for header, _ in records} >= {"agentStop", "preToolUse"}


@pytest.mark.parametrize("name", [name for name in JSON_FILES if name != "codex notify"])
def test_a_missing_receiver_disturbs_no_agent(tmp_path: Path, name: str) -> None:
    """An interpreter without its script ends with 2, which would block what the user wants to do."""
    gone = (sys.executable, "-I", "-S", str(tmp_path / "holdfast" / "agents" / "receiver" / "receiver.py"))
    environment = Environment(tmp_path, {}, tmp_path, sys.executable, gone)
    make_installer(environment).install([name])
    assert subprocess.run([*gone, "--agent", name], capture_output=True, timeout=30, check=False).returncode == 2
    command = written(environment, name)[0]
    done = subprocess.run(command, input=b"{}", capture_output=True, timeout=30, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


@pytest.mark.skipif(shutil.which("node") is None, reason="OpenCode's plugin is JavaScript, and there is no node here")
def test_the_plugin_passes_events_to_its_command_without_waiting(tmp_path: Path) -> None:
    """In node instead of OpenCode, with a command that writes down what it got."""
    environment = make_environment(tmp_path)
    make_installer(environment).install(["opencode"])
    catcher = tmp_path / "catch.py"
    catcher.write_text("import sys; open(sys.argv[-1], 'w').write(sys.stdin.read())")
    text = (environment.home / FILES["opencode"]).read_text()
    command = json.dumps([sys.executable, str(catcher)])
    plugin = tmp_path / "plugin.mjs"
    plugin.write_text(re.sub(r"^const command = .*$", lambda _: f"const command = {command}", text, flags=re.MULTILINE))
    (tmp_path / "try.mjs").write_text(
        'import { Holdfast } from "./plugin.mjs"\n'
        'const hooks = await Holdfast({ directory: "/src" })\n'
        "const send = (type, properties) => hooks.event({ event: { type, properties } })\n"
        'await send("session.updated", { info: { id: "s1", title: "Lamps" } })\n'
        'await send("message.updated", { info: { id: "m1", role: "user" } })\n'
        'const said = (messageID, text) => ({ part: { type: "text", sessionID: "s1", messageID, text } })\n'
        'await send("message.part.updated", said("m1", "hi"))\n'
        'await send("message.updated", { info: { id: "m2", role: "assistant" } })\n'
        'await send("message.part.updated", said("m2", "lit"))\n'
        'await send("session.idle", { sessionID: "s1" })\n'
        'await hooks.event({ event: { type: "message.part.updated", properties: {} } })\n'
        'await hooks["chat.message"]({ sessionID: "s1" }, { parts: [{ type: "text", text: "hi" }] })\n'
        'await hooks["tool.execute.before"]({ tool: "bash" }, { args: {} })\n'
    )
    done = subprocess.run(["node", "try.mjs"], cwd=tmp_path, capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    wait_for(tmp_path / "session.idle")
    wait_for(tmp_path / "chat.message")
    idle = json.loads((tmp_path / "session.idle").read_text())
    assert (idle["hook_event_name"], idle["cwd"], idle["properties"]["sessionID"]) == ("session.idle", "/src", "s1")
    assert (idle["title"], idle["answer"]) == ("Lamps", "lit")
    assert json.loads((tmp_path / "chat.message").read_text())["parts"][0]["text"] == "hi"
    assert not (tmp_path / "message.part.updated").exists()
    assert not (tmp_path / "tool.execute.before").exists()


def wait_for(path: Path) -> None:
    from daemon import wait_until

    wait_until(lambda: path.exists() and path.stat().st_size > 0, 30, lambda: f"{path} was not written")
