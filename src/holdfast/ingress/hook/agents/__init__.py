"""The agent CLIs we understand: one table each, from its own events and fields to ours."""

from __future__ import annotations

from holdfast.ingress.hook.agents.adapter import Adapter
from holdfast.ingress.hook.agents.claude import CLAUDE
from holdfast.ingress.hook.agents.codex import CODEX
from holdfast.ingress.hook.agents.copilot import COPILOT
from holdfast.ingress.hook.agents.cursor import CURSOR
from holdfast.ingress.hook.agents.gemini import GEMINI
from holdfast.ingress.hook.agents.opencode import OPENCODE
from holdfast.ingress.hook.agents.qwen import QWEN

AGENTS = {adapter.agent: adapter for adapter in (CLAUDE, CODEX, GEMINI, QWEN, COPILOT, CURSOR, OPENCODE)}


def adapter_for(agent: str) -> Adapter:
    """The adapter of a CLI. One we do not know is read like Claude Code, whose shape others follow."""
    return AGENTS.get(agent, CLAUDE)
