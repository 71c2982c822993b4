"""Codex CLI."""

from __future__ import annotations

from holdfast.agents.agent_cli import AgentCli
from holdfast.agents.codex.hooks import HOOKS
from holdfast.agents.codex.install import INSTALL
from holdfast.agents.codex.mcp import MCP
from holdfast.agents.codex.terminal import QUEUE, TERMINAL
from holdfast.agents.codex.transcript import TRANSCRIPT

AGENT = AgentCli("codex", HOOKS, INSTALL, TRANSCRIPT, pane_is_shared=True, terminal=TERMINAL, mcp=MCP, queue=QUEUE)
