"""Cursor."""

from __future__ import annotations

from holdfast.agents.agent_cli import AgentCli
from holdfast.agents.cursor.hooks import HOOKS
from holdfast.agents.cursor.install import INSTALL

AGENT = AgentCli("cursor", HOOKS, INSTALL)
