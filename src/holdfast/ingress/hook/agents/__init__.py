"""The agent CLIs we understand: one table each, from its own events and fields to ours."""

from __future__ import annotations

from holdfast.ingress.hook.agents import codex
from holdfast.ingress.hook.agents.adapter import Adapter
from holdfast.ingress.hook.agents.claude import CLAUDE
from holdfast.ingress.hook.agents.copilot import COPILOT
from holdfast.ingress.hook.agents.cursor import CURSOR
from holdfast.ingress.hook.agents.gemini import GEMINI
from holdfast.ingress.hook.agents.opencode import OPENCODE
from holdfast.ingress.hook.agents.qwen import QWEN

AGENTS = {adapter.agent: adapter for adapter in (CLAUDE, codex.CODEX, GEMINI, QWEN, COPILOT, CURSOR, OPENCODE)}


def adapter_for(agent: str) -> Adapter:
    """The adapter of a CLI. One we do not know is read like Claude Code, whose shape others follow."""
    return AGENTS.get(agent, CLAUDE)


def find_transcript(agent: str, native_id: str) -> str | None:
    """Where a session's transcript is, of a CLI whose hooks may not say it."""
    return codex.find_transcript(native_id) if agent == "codex" else None
