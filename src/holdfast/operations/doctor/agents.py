"""Checks of the agent CLIs on this machine: version, state of their hooks, last event."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path

from holdfast.agents import registry
from holdfast.agents.agent_cli import AgentCli
from holdfast.agents.install.answers import AgentStatus
from holdfast.agents.install.environment import Environment
from holdfast.agents.install.hook_config import (
    DISABLED,
    INSTALLED,
    NOT_FOUND,
    NOT_INSTALLED,
    STALE,
    UNTRUSTED,
)
from holdfast.agents.install.installer import Installer
from holdfast.home import Home
from holdfast.operations.doctor.finding import Finding, fail, ok, warn
from holdfast.operations.elapsed import ago

VERSION_S = 10.0
AT_ONCE = 3
PACKAGE_DEPTH_MAX = 4
PACKAGE_BYTES_MAX = 1024 * 1024

_VERSION = re.compile(r"\d+\.\d+(?:[.+-]\w+)*")


def check_agents(
    environment: Environment, home: Home, last_events: Mapping[str, str] | None, now_s: float
) -> list[Finding]:
    """`last_events`: the time of each agent's last event, or None if no daemon can be reached."""
    states = {status.agent: status for status in Installer(environment, home).status().agents}
    here = [agent for agent in registry.AGENTS if states[agent.name].state != NOT_FOUND]
    if not here:
        return [ok("agents", "no agent CLI found")]
    with ThreadPoolExecutor(AT_ONCE) as threads:
        versions = list(threads.map(lambda agent: find_version(environment, agent), here))
    found = zip(here, versions, strict=True)
    judged = [(agent, version, _judge(states[agent.name], version, last_events, now_s)) for agent, version in found]
    terminals = (_judge_terminal(agent, version) for agent, version, _ in judged)
    return [finding for _, _, finding in judged] + [finding for finding in terminals if finding is not None]


def find_version(environment: Environment, agent: AgentCli) -> str:
    """The version according to the package or the program itself, or why it is unknown."""
    names = agent.install.programs
    program = environment.find_program(*names)
    if program is None:
        return "(not on PATH)"
    return read_version(Path(program), names) or ask_version(program, environment.env) or "(version unknown)"


def read_version(program: Path, names: Sequence[str]) -> str | None:
    """The version in the npm package that a program belongs to. Starting Node for `--version` takes seconds."""
    for folder in islice(program.resolve().parents, PACKAGE_DEPTH_MAX):
        try:
            with (folder / "package.json").open("rb") as file:
                package = json.loads(file.read(PACKAGE_BYTES_MAX))
        except (OSError, ValueError):
            continue
        programs = package.get("bin") if isinstance(package, dict) else None
        if isinstance(programs, dict) and any(name in programs for name in names):
            return _version_in(package.get("version"))
    return None


def ask_version(program: str, env: Mapping[str, str]) -> str | None:
    try:
        done = subprocess.run(
            [program, "--version"], capture_output=True, timeout=VERSION_S, stdin=subprocess.DEVNULL, env=dict(env),
            cwd="/",
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return None
    return _version_in(done.stdout[:4096].decode("utf-8", "replace"))


def _version_in(text: object) -> str | None:
    match = _VERSION.search(text) if isinstance(text, str) else None
    return match[0][:40] if match else None


def _judge_terminal(agent: AgentCli, version: str) -> Finding | None:
    """Whether messages can be typed into this version as into those that were tried."""
    terminal = agent.terminal
    if terminal is None or version in terminal.versions or not _VERSION.fullmatch(version):
        return None
    tried = ", ".join(terminal.versions)
    return ok(
        f"agent.{agent.name}.terminal",
        f"messages to {agent.name} were tried with {tried}, and this is {version}: they are submitted only while its "
        "input box is recognized",
        "to try it, run: holdfast send SESSION TEXT --wait",
    )


def _judge(agent: AgentStatus, version: str, last_events: Mapping[str, str] | None, now_s: float) -> Finding:
    name, state, detail = agent.agent, agent.state, agent.detail
    id = f"agent.{name}"
    text = f"{name} {version}: {state}"
    install = f"run: holdfast hooks install --agent {name}"
    if state == NOT_INSTALLED:
        return ok(id, f"{text}; Holdfast receives no events from it", install)
    if last_events is not None:
        at = last_events.get(name)
        text += f", last event {ago(at, now_s)}" if at else ", no recent event"
    if state == INSTALLED:
        return warn(id, f"{text}, {detail}", install) if detail else ok(id, text)
    if state in (UNTRUSTED, DISABLED):
        return warn(id, text, detail)
    return fail(id, f"{text}: {detail}", install if state == STALE else "fix that file")
