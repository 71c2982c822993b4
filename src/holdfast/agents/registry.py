"""The agent CLIs that Holdfast supports. This is the only module that lists them."""

from __future__ import annotations

from holdfast.agents import claude, codex, copilot, cursor, gemini, opencode, qwen
from holdfast.agents.agent_cli import AgentCli
from holdfast.agents.hooks.hook_format import HookFormat
from holdfast.agents.transcripts.transcript_format import TranscriptFormat

AGENTS: tuple[AgentCli, ...] = (
    claude.AGENT,
    codex.AGENT,
    gemini.AGENT,
    qwen.AGENT,
    copilot.AGENT,
    cursor.AGENT,
    opencode.AGENT,
)

UNKNOWN_AGENT = claude.AGENT
"""The CLI whose hook format is assumed for an unknown one, because most others follow it."""


def agent_names() -> tuple[str, ...]:
    """The names of all supported CLIs, in the order in which they are shown."""
    return tuple(agent.name for agent in AGENTS)


def find_agent(name: str) -> AgentCli | None:
    return next((agent for agent in AGENTS if agent.name == name), None)


def hook_format(name: str) -> HookFormat:
    """The hook format of a CLI; an unknown CLI gets the format of `UNKNOWN_AGENT`."""
    return (find_agent(name) or UNKNOWN_AGENT).hooks


def transcript_format(name: str) -> TranscriptFormat | None:
    """The transcript format of a CLI, or None if its transcripts cannot be read."""
    agent = find_agent(name)
    return None if agent is None else agent.transcript
