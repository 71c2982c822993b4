"""Hook config of Gemini CLI: groups in `settings.json`, timeouts in milliseconds.

Model events are not installed, because they fire for every chunk and carry the whole conversation; nor is
`PreCompress`, which fires before every model call.
"""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.agents.install.environment import Environment, split_line
from holdfast.agents.install.hook_config import JsonHookConfig
from holdfast.agents.install.hook_entries import Handler
from holdfast.domain.json_value import Json

TIMEOUT_MS = 5000
NAME = "holdfast"


def _handler(environment: Environment, event: str) -> Handler:
    return {"type": "command", "name": NAME, "command": environment.command_line("gemini"), "timeout": TIMEOUT_MS}


def _switched_off(settings: Mapping[str, Json]) -> str | None:
    switches = settings.get("hooksConfig")
    if not isinstance(switches, dict):
        return None
    if switches.get("enabled") is False:
        return "hooksConfig.enabled is false"
    disabled = switches.get("disabled")
    return f"hooksConfig.disabled lists {NAME}" if isinstance(disabled, list) and NAME in disabled else None


INSTALL = JsonHookConfig(
    programs=("gemini",),
    folder=lambda environment: environment.folder("GEMINI_CLI_HOME", "") / ".gemini",
    user_file="settings.json",
    project_file=".gemini/settings.json",
    lifecycle=("SessionStart", "BeforeAgent", "AfterAgent", "Notification", "SessionEnd"),
    tools=("BeforeTool", "AfterTool"),
    handler=_handler,
    words=lambda handler: split_line(handler.get("command")),
    disabled_by=_switched_off,
)
