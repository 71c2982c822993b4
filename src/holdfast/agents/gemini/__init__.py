"""Gemini CLI."""

from __future__ import annotations

from holdfast.agents.agent_cli import AgentCli
from holdfast.agents.gemini.hooks import HOOKS
from holdfast.agents.gemini.install import INSTALL
from holdfast.agents.gemini.transcript import TRANSCRIPT

AGENT = AgentCli("gemini", HOOKS, INSTALL, TRANSCRIPT)
