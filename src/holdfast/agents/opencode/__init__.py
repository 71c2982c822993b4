"""OpenCode."""

from __future__ import annotations

from holdfast.agents.agent_cli import AgentCli
from holdfast.agents.opencode.hooks import HOOKS
from holdfast.agents.opencode.install import INSTALL

AGENT = AgentCli("opencode", HOOKS, INSTALL)
