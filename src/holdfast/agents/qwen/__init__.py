"""Qwen Code."""

from __future__ import annotations

from holdfast.agents.agent_cli import AgentCli
from holdfast.agents.qwen.hooks import HOOKS
from holdfast.agents.qwen.install import INSTALL
from holdfast.agents.qwen.transcript import TRANSCRIPT

AGENT = AgentCli("qwen", HOOKS, INSTALL, TRANSCRIPT)
