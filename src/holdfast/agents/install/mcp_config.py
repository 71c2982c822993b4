"""McpConfig: the config file in which one agent CLI lists its MCP servers; JsonMcpConfig for CLIs with a JSON file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from holdfast.agents.install.environment import Environment
from holdfast.agents.install.files import Refused
from holdfast.agents.install.hook_config import HookFile
from holdfast.agents.install.json_settings import edit_json
from holdfast.domain.json_value import Json, JsonObject, list_in, object_in, text_in

SERVER = "holdfast"
"""The name of the server in every CLI."""
SERVERS = "mcpServers"


class McpConfig(Protocol):
    """Where one CLI lists its MCP servers. `project` selects the file of a project instead of the user's."""

    def file(self, environment: Environment, project: bool) -> HookFile:
        """The file, and how to add and remove the server."""
        ...


def server_entry(environment: Environment, agent: str) -> JsonObject:
    """The command that serves one CLI. The token is in the home folder, and not in the CLI's file."""
    entry: JsonObject = {"command": environment.python, "args": ["-m", "holdfast", "mcp", "--agent", agent]}
    if environment.spool_home is not None:
        entry["env"] = {"HOLDFAST_HOME": environment.spool_home}
    return entry


def is_own_server(entry: Json) -> bool:
    """Whether an entry is ours, with any interpreter.

    >>> is_own_server({"command": "/old/python", "args": ["-m", "holdfast", "mcp", "--agent", "some-cli"]})
    True
    """
    if not isinstance(entry, dict) or text_in(entry, "command") is None:
        return False
    return list_in(entry, "args")[:4] == ["-m", "holdfast", "mcp", "--agent"]


def check_foreign(servers: Mapping[str, Json]) -> None:
    if SERVER in servers and not is_own_server(servers[SERVER]):
        raise Refused(f"it has an MCP server {SERVER} that was not added by Holdfast; rename or remove it first")


@dataclass(frozen=True, slots=True)
class JsonMcpConfig:
    """Servers in the object `mcpServers` of a JSON file. `extra`: further keys of an entry, before the command."""

    agent: str
    user_file: Callable[[Environment], Path]
    project_file: str
    extra: Mapping[str, Json]

    def file(self, environment: Environment, project: bool) -> HookFile:
        path = environment.project / self.project_file if project else self.user_file(environment)
        entry = {**self.extra, **server_entry(environment, self.agent)}
        return HookFile(
            path,
            lambda raw, _: edit_json(path, raw, lambda settings: _with_server(settings, entry)),
            lambda raw: edit_json(path, raw, lambda settings: _with_server(settings, None)),
        )


def _with_server(settings: Mapping[str, Json], entry: JsonObject | None) -> JsonObject:
    changed = dict(settings)
    if not isinstance(changed.get(SERVERS, {}), dict):
        raise Refused(f"its {SERVERS} are not an object")
    servers = dict(object_in(changed, SERVERS))
    if entry is not None:
        check_foreign(servers)
        servers[SERVER] = entry
    elif is_own_server(servers.get(SERVER)):
        del servers[SERVER]
    else:
        return changed
    if servers:
        changed[SERVERS] = servers
    else:
        changed.pop(SERVERS, None)
    return changed
