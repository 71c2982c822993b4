"""docs/agents/hooks.md agrees with the code: every CLI with its files, events and states."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from holdfast.agents.agent_cli import AgentCli
from holdfast.agents.codex import install as codex
from holdfast.agents.install import hook_config
from holdfast.agents.install.environment import Environment
from holdfast.agents.opencode import install as opencode
from holdfast.agents.registry import AGENTS, find_agent

PAGE = (Path(__file__).parents[2] / "docs" / "agents" / "hooks.md").read_text(encoding="utf-8")
EVENTS = {"claude": "Claude, Qwen", "qwen": "Claude, Qwen", "codex": "Codex", "gemini": "Gemini", "copilot": "Copilot",
          "cursor": "Cursor", "opencode": "OpenCode"}  # fmt: skip


def events_of(name: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    if name == "opencode":
        return opencode.LIFECYCLE, opencode.TOOLS
    agent = find_agent(name)
    assert agent is not None
    found = codex.HOOKS_JSON if name == "codex" else agent.install
    assert isinstance(found, hook_config.JsonHookConfig)
    return found.lifecycle, found.tools


@pytest.mark.parametrize("name", EVENTS)
def test_the_table_of_events_matches_the_code(name: str) -> None:
    row = re.search(rf"^\| {re.escape(EVENTS[name])} \| (.*) \| (.*) \|$", PAGE, re.MULTILINE)
    assert row is not None
    documented = tuple(tuple(re.findall(r"`([^`]+)`", cell)) for cell in row.groups())
    assert documented == events_of(name)


@pytest.mark.parametrize("each", AGENTS, ids=lambda each: each.name)
def test_the_table_of_files_matches_the_code(each: AgentCli) -> None:
    row = re.search(rf"^\| `{each.name}` \| (.*) \| (.*) \| (.*) \| .* \|$", PAGE, re.MULTILINE)
    assert row is not None
    environment = Environment(Path("/home"), {}, Path("/project"), "python", ("python", "receiver.py"))
    user, project = each.install.files(environment, False)[0].path, each.install.files(environment, True)[0].path
    assert any(str(user).endswith(f"/{name}") for name in re.findall(r"`([^`]+)`", row[2]))
    assert str(project.relative_to("/project")) in re.findall(r"`([^`]+)`", row[3])


def test_every_state_is_explained() -> None:
    states = {value for name, value in vars(hook_config).items() if name.isupper() and isinstance(value, str)}
    section = PAGE.partition("## States")[2].partition("\n## ")[0]
    assert set(re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE)) == states
