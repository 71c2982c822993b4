"""Gemini CLI."""

from __future__ import annotations

from holdfast.agents.agent_cli import AgentCli
from holdfast.agents.gemini.hooks import HOOKS
from holdfast.agents.gemini.install import INSTALL
from holdfast.agents.gemini.mcp import MCP
from holdfast.agents.gemini.terminal import TERMINAL
from holdfast.agents.gemini.transcript import TRANSCRIPT

AGENT = AgentCli(
    "gemini", HOOKS, INSTALL, TRANSCRIPT, terminal=TERMINAL, mcp=MCP, resume=lambda id: ("gemini", "--resume", id)
)
