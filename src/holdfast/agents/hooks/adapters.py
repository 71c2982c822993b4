"""The agent CLIs we understand: one table each, from its own events and fields to ours."""

from __future__ import annotations

from holdfast.agents.claude.hooks import CLAUDE
from holdfast.agents.codex.hooks import CODEX
from holdfast.agents.copilot.hooks import COPILOT
from holdfast.agents.cursor.hooks import CURSOR
from holdfast.agents.gemini.hooks import GEMINI
from holdfast.agents.hooks.adapter import Adapter
from holdfast.agents.opencode.hooks import OPENCODE
from holdfast.agents.qwen.hooks import QWEN

AGENTS = {adapter.agent: adapter for adapter in (CLAUDE, CODEX, GEMINI, QWEN, COPILOT, CURSOR, OPENCODE)}


def adapter_for(agent: str) -> Adapter:
    """The adapter of a CLI. One we do not know is read like Claude Code, whose shape others follow."""
    return AGENTS.get(agent, CLAUDE)
