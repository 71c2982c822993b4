"""Hook config of Claude Code: groups in `settings.json`, timeouts in seconds.

The command is one line. A version that does not know `args` would run only the first word, a bare shell, and that shell
would execute the hook's payload.
"""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.agents.install.environment import Environment, split_line
from holdfast.agents.install.hook_config import JsonHookConfig
from holdfast.agents.install.hook_entries import Handler
from holdfast.domain.json_value import Json

TIMEOUT_S = 5


def _handler(environment: Environment, event: str) -> Handler:
    return {"type": "command", "command": environment.command_line("claude"), "timeout": TIMEOUT_S}


def _words(handler: Handler) -> list[str]:
    arguments = handler.get("args")
    command = handler.get("command")
    if isinstance(arguments, list) and isinstance(command, str):
        return [command, *map(str, arguments)]
    return split_line(command)


def _switched_off(settings: Mapping[str, Json]) -> str | None:
    return "disableAllHooks is true" if settings.get("disableAllHooks") is True else None


# The project file is the one that Claude Code keeps out of version control, because the command has local paths.
INSTALL = JsonHookConfig(
    programs=("claude",),
    folder=lambda environment: environment.folder("CLAUDE_CONFIG_DIR", ".claude"),
    user_file="settings.json",
    project_file=".claude/settings.local.json",
    lifecycle=(
        "SessionStart", "UserPromptSubmit", "Stop", "StopFailure", "SubagentStart", "SubagentStop", "Notification",
        "PermissionRequest", "PreCompact", "SessionEnd",
    ),
    tools=("PreToolUse", "PostToolUse", "PostToolUseFailure"),
    handler=_handler,
    words=_words,
    disabled_by=_switched_off,
    strict=True,
    notes=("restart running sessions so that they load the hooks",),
)  # fmt: skip
