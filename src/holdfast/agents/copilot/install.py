"""Copilot CLI: a file of our own in its hooks folder.

With event names in camelCase the payload does not say which event it is, so the command does. `permissionRequest` is
not wired: it fires for what is allowed anyway too. When somebody is really asked, `notification` says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.agents.install.environment import Environment, split_line
from holdfast.agents.install.hook_config import JsonHookConfig
from holdfast.agents.install.hook_entries import Handler

TIMEOUT_S = 10


def _handler(environment: Environment, event: str) -> Handler:
    return {"type": "command", "bash": environment.line("copilot", event), "timeoutSec": TIMEOUT_S}


def _switched_off(settings: Mapping[str, Any]) -> str | None:
    return "disableAllHooks is true" if settings.get("disableAllHooks") is True else None


COPILOT = JsonHookConfig(
    name="copilot",
    programs=("copilot",),
    folder=lambda environment: environment.folder("COPILOT_HOME", ".copilot"),
    user_file="hooks/holdfast.json",
    project_file=".github/hooks/holdfast.json",
    lifecycle=(
        "sessionStart", "userPromptSubmitted", "agentStop", "errorOccurred", "subagentStart", "subagentStop",
        "notification", "preCompact", "sessionEnd",
    ),
    tools=("preToolUse", "postToolUse", "postToolUseFailure"),
    handler=_handler,
    words=lambda handler: split_line(handler.get("bash")),
    grouped=False,
    start={"version": 1},
    own_file=True,
    switched_off=_switched_off,
)  # fmt: skip
