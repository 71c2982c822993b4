"""Hook config of Copilot CLI: a file of our own in its hooks folder.

With camelCase event names the payload does not contain the event, so the command does. `permissionRequest` is not
installed: it also fires for actions that are already allowed. `notification` fires when the user is really asked.
"""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.agents.install.environment import Environment, split_line
from holdfast.agents.install.hook_config import JsonHookConfig
from holdfast.agents.install.hook_entries import Handler
from holdfast.domain.json_value import Json

TIMEOUT_S = 10


def _handler(environment: Environment, event: str) -> Handler:
    return {"type": "command", "bash": environment.command_line("copilot", event), "timeoutSec": TIMEOUT_S}


def _switched_off(settings: Mapping[str, Json]) -> str | None:
    return "disableAllHooks is true" if settings.get("disableAllHooks") is True else None


INSTALL = JsonHookConfig(
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
    initial={"version": 1},
    own_file=True,
    disabled_by=_switched_off,
)  # fmt: skip
