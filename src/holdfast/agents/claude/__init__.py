"""Claude Code."""

from __future__ import annotations

from holdfast.agents.agent_cli import AgentCli
from holdfast.agents.claude.hooks import HOOKS
from holdfast.agents.claude.install import INSTALL
from holdfast.agents.claude.mcp import MCP
from holdfast.agents.claude.terminal import TERMINAL
from holdfast.agents.claude.transcript import TRANSCRIPT

AGENT = AgentCli(
    "claude",
    HOOKS,
    INSTALL,
    TRANSCRIPT,
    terminal=TERMINAL,
    mcp=MCP,
    stand_in="holdfast.agents.claude.stand_in",
    resume=lambda id: ("claude", "--resume", id),
)
