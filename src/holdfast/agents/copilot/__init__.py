"""GitHub Copilot CLI."""

from __future__ import annotations

from holdfast.agents.agent_cli import AgentCli
from holdfast.agents.copilot.hooks import HOOKS
from holdfast.agents.copilot.install import INSTALL
from holdfast.agents.copilot.transcript import TRANSCRIPT

AGENT = AgentCli("copilot", HOOKS, INSTALL, TRANSCRIPT)
