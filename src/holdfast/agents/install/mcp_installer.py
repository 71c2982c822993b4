"""McpInstaller: adds our MCP server to the config files of agent CLIs, and removes it."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.agents import registry
from holdfast.agents.agent_cli import AgentCli
from holdfast.agents.install.environment import Environment
from holdfast.agents.install.hook_config import HookFile
from holdfast.agents.install.install_record import MCP_RECORD
from holdfast.agents.install.installer import Installer, choose_agents
from holdfast.domain.errors import BadInput
from holdfast.home import Home

NOTE = "restart running sessions so that they load the server"


class McpInstaller(Installer):
    """Like the installer of hooks, on the files that list MCP servers: the same backups, and undone to the byte."""

    def __init__(self, environment: Environment, home: Home, project: bool = False) -> None:
        super().__init__(environment, home, project, MCP_RECORD)

    def _choose(self, names: Sequence[str]) -> list[AgentCli]:
        chosen = choose_agents(names)
        without = [agent.name for agent in chosen if agent.mcp is None]
        if names and without:
            raise BadInput(f"{without[0]} is not supported here; use one of {', '.join(mcp_agent_names())}")
        return [agent for agent in chosen if agent.mcp is not None]

    def _files(self, agent: AgentCli) -> list[HookFile]:
        return [] if agent.mcp is None else [agent.mcp.file(self._environment, self._project)]

    def _advice(self, agent: AgentCli) -> list[str]:
        return [NOTE]


def mcp_agent_names() -> tuple[str, ...]:
    """The CLIs into which the server can be installed."""
    return tuple(agent.name for agent in registry.AGENTS if agent.mcp is not None)
