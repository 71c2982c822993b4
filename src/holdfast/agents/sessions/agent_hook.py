"""Reads the hook in a stored event, completed with what is known about its CLI."""

from __future__ import annotations

from dataclasses import replace

from holdfast.agents.hooks.hook import Hook, read_hook
from holdfast.agents.registry import find_agent
from holdfast.domain.event import Event


def read_agent_hook(event: Event) -> Hook:
    """Raises BadInput if the event holds no hook."""
    hook = read_hook(event)
    agent = find_agent(hook.agent)
    return replace(hook, pane_is_shared=True) if agent is not None and agent.pane_is_shared else hook
