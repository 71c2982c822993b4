"""Hook config of Qwen Code: the events of Claude Code in groups, timeouts in milliseconds."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.agents.install.environment import Environment, split_line
from holdfast.agents.install.hook_config import JsonHookConfig
from holdfast.agents.install.hook_entries import Handler
from holdfast.domain.json_value import Json

TIMEOUT_MS = 5000


def _handler(environment: Environment, event: str) -> Handler:
    return {"type": "command", "name": "holdfast", "command": environment.command_line("qwen"), "timeout": TIMEOUT_MS}


def _switched_off(settings: Mapping[str, Json]) -> str | None:
    return "disableAllHooks is true" if settings.get("disableAllHooks") is True else None


INSTALL = JsonHookConfig(
    programs=("qwen",),
    folder=lambda environment: environment.folder("QWEN_HOME", ".qwen"),
    user_file="settings.json",
    project_file=".qwen/settings.json",
    lifecycle=(
        "SessionStart", "UserPromptSubmit", "Stop", "StopFailure", "SubagentStart", "SubagentStop", "Notification",
        "PermissionRequest", "PreCompact", "SessionEnd",
    ),
    tools=("PreToolUse", "PostToolUse", "PostToolUseFailure"),
    handler=_handler,
    words=lambda handler: split_line(handler.get("command")),
    disabled_by=_switched_off,
)  # fmt: skip
