"""A machine with agent CLIs that exists only for a test: a home, variables, an interpreter and a receiver."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from holdfast.agents.install.answers import AgentChange, AgentStatus, HookChanges, HooksStatus
from holdfast.agents.install.environment import Environment
from holdfast.agents.install.installer import Installer
from holdfast.home import Home

AGENTS = ("claude", "codex", "gemini", "qwen", "copilot", "cursor", "opencode")
FOLDERS = {
    "claude": ".claude", "codex": ".codex", "gemini": ".gemini", "qwen": ".qwen", "copilot": ".copilot",
    "cursor": ".cursor", "opencode": ".config/opencode",
}  # fmt: skip
JSON_FILES = {
    "claude": ".claude/settings.json",
    "codex": ".codex/hooks.json",
    "gemini": ".gemini/settings.json",
    "qwen": ".qwen/settings.json",
    "copilot": ".copilot/hooks/holdfast.json",
    "cursor": ".cursor/hooks.json",
}


def make_environment(folder: Path, env: Mapping[str, str] | None = None, installation: str = "one") -> Environment:
    """A machine in a folder. Another installation has its receiver elsewhere."""
    home = folder / "home"
    home.mkdir(parents=True, exist_ok=True)
    receiver = folder / installation / "holdfast" / "agents" / "receiver" / "receiver.py"
    receiver.parent.mkdir(parents=True, exist_ok=True)
    receiver.touch()
    return Environment(
        home=home,
        env={"PATH": str(folder / "bin"), **(env or {})},
        project=folder / "project",
        python=sys.executable,
        program=(sys.executable, "-I", "-S", str(receiver)),
        platform="linux",
    )


def make_installer(environment: Environment, project: bool = False) -> Installer:
    return Installer(environment, Home(environment.home / "state"), project)


def only(answer: HookChanges | HooksStatus, name: str) -> AgentChange | AgentStatus:
    return next(item for item in answer.agents if item.agent == name)


def snapshot(folder: Path) -> dict[str, tuple[bytes | str, int]]:
    """Every file below a folder: bytes (of a link: where it leads) and mode. The state folder is not the CLIs'."""
    found: dict[str, tuple[bytes | str, int]] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if name.startswith("state"):
            continue
        if path.is_symlink():
            found[name] = (os.readlink(path), 0)
        else:
            found[name] = (path.read_bytes() if path.is_file() else "folder", path.stat().st_mode)
    return found
