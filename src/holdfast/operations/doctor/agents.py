"""The agent CLIs that are here: which version, whether their hooks reach us, and when one last did."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any

from holdfast.agents import registry
from holdfast.agents.agent_cli import AgentCli
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


def check_agents(environment: Environment, home: Home, heard: Mapping[str, str] | None, now_s: float) -> list[Finding]:
    """`heard`: when an event of each agent last came; None where there is no daemon to ask."""
    looks = {look["agent"]: look for look in Installer(environment, home).status()["agents"]}
    here = [agent for agent in registry.AGENTS if looks[agent.name]["state"] != NOT_FOUND]
    if not here:
        return [ok("agents", "no agent CLI is on this machine")]
    with ThreadPoolExecutor(AT_ONCE) as threads:
        versions = list(threads.map(lambda agent: find_version(environment, agent), here))
    return [_judge(looks[agent.name], version, heard, now_s) for agent, version in zip(here, versions, strict=True)]


def find_version(environment: Environment, agent: AgentCli) -> str:
    """What its package or the program itself says; else why it is not known."""
    names = agent.install.programs
    program = environment.find_program(*names)
    if program is None:
        return "(not on PATH)"
    return read_version(Path(program), names) or ask_version(program, environment.env) or "(version unknown)"


def read_version(program: Path, names: Sequence[str]) -> str | None:
    """The version in the npm package that a program belongs to: starting Node only to ask takes seconds."""
    for folder in islice(program.resolve().parents, PACKAGE_DEPTH_MAX):
        try:
            with (folder / "package.json").open("rb") as file:
                package = json.loads(file.read(PACKAGE_BYTES_MAX))
        except (OSError, ValueError):
            continue
        offered = package.get("bin") if isinstance(package, dict) else None
        if isinstance(offered, dict) and any(name in offered for name in names):
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


def _judge(look: Mapping[str, Any], version: str, heard: Mapping[str, str] | None, now_s: float) -> Finding:
    name, state, detail = look["agent"], look["state"], look["detail"]
    id = f"agent.{name}"
    told = f"{name} {version}: {state}"
    install = f"run: holdfast hooks install --agent {name}"
    if state == NOT_INSTALLED:
        return ok(id, f"{told}; Holdfast hears nothing of it", install)
    if heard is not None:
        at = heard.get(name)
        told += f", last event seen {ago(at, now_s)}" if at else ", no event seen lately"
    if state == INSTALLED:
        return warn(id, f"{told}, {detail}", install) if detail else ok(id, told)
    if state in (UNTRUSTED, DISABLED):
        return warn(id, told, detail)
    return fail(id, f"{told}: {detail}", install if state == STALE else "mend that file")
