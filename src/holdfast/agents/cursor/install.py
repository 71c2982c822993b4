"""Hook config of Cursor: plain lists in `hooks.json`. No timeout is set, because its unit is not documented."""

from __future__ import annotations

from holdfast.agents.install.environment import Environment, split_line
from holdfast.agents.install.hook_config import JsonHookConfig
from holdfast.agents.install.hook_entries import Handler


def _handler(environment: Environment, event: str) -> Handler:
    return {"command": environment.command_line("cursor")}


INSTALL = JsonHookConfig(
    programs=("cursor", "cursor-agent"),
    folder=lambda environment: environment.home / ".cursor",
    user_file="hooks.json",
    project_file=".cursor/hooks.json",
    lifecycle=(
        "sessionStart",
        "beforeSubmitPrompt",
        "stop",
        "subagentStart",
        "subagentStop",
        "preCompact",
        "sessionEnd",
    ),
    tools=("preToolUse", "postToolUse"),
    handler=_handler,
    words=lambda handler: split_line(handler.get("command")),
    grouped=False,
    initial={"version": 1},
)
