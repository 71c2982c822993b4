"""All facts about one agent CLI are in its folder: no other module names a CLI, its files or its hook events."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from holdfast.agents.install.hook_config import JsonHookConfig
from holdfast.agents.registry import AGENTS, agent_names

PACKAGE = Path(__file__).parents[2] / "src" / "holdfast"
REGISTRY = "agents/registry.py"
ORDINARY_WORDS = {"cursor"}
"""Names that also have another meaning here: a cursor is a reader's position in a stream."""


def other_modules() -> list[tuple[str, str]]:
    """Every text file of the package outside the folders of the CLIs and the registry."""
    folders = tuple(f"agents/{name}/" for name in agent_names())
    paths = [path for path in PACKAGE.rglob("*") if path.is_file() and path.suffix in {".py", ".pl", ".yml", ".sql"}]
    named = [(str(path.relative_to(PACKAGE)), path.read_text("utf-8")) for path in paths]
    return [(name, text) for name, text in named if name != REGISTRY and not name.startswith(folders)]


@pytest.mark.parametrize("name", agent_names())
def test_no_other_module_names_the_cli(name: str) -> None:
    as_cli = rf"agents[./]{name}\b|\.{name}/|agent=.{name}\b|{name}-agent"
    pattern = as_cli if name in ORDINARY_WORDS else name
    assert [module for module, text in other_modules() if re.search(pattern, text, re.IGNORECASE)] == []


def test_no_other_module_names_a_native_event() -> None:
    events = {event for agent in AGENTS for event in agent.hooks.events if re.search(r"[a-z][A-Z]", event)}
    pattern = re.compile(rf"\b({'|'.join(sorted(events))})\b")
    assert [(module, match[0]) for module, text in other_modules() if (match := pattern.search(text))] == []


def test_no_other_module_names_a_config_file() -> None:
    files = {agent.install.project_file for agent in AGENTS if isinstance(agent.install, JsonHookConfig)}
    assert [(module, file) for module, text in other_modules() for file in files if file in text] == []


def test_every_folder_is_in_the_registry_and_exports_one_value() -> None:
    folders = {path.parent.name for path in (PACKAGE / "agents").glob("*/hooks.py")}
    assert folders == set(agent_names())
    for agent in AGENTS:
        text = (PACKAGE / "agents" / agent.name / "__init__.py").read_text("utf-8")
        assert re.findall(r"^(\w+) = ", text, re.MULTILINE) == ["AGENT"]
