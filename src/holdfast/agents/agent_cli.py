"""AgentCli: everything that Holdfast knows about one agent CLI, as one value."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.agents.hooks.hook_format import HookFormat
from holdfast.agents.install.hook_config import HookConfig
from holdfast.agents.transcripts.transcript_format import TranscriptFormat


@dataclass(frozen=True, slots=True)
class AgentCli:
    """One agent CLI: its hook events, the config files that hold its hooks, and its transcripts if they can be read.

    `name` is what the receiver gets as `--agent`; it is also the first part of session ids. `pane_is_shared` is true
    for a CLI whose hooks run in one background process for several terminals: the tmux pane that such a hook reports
    is often the pane of another session.
    """

    name: str
    hooks: HookFormat
    install: HookConfig
    transcript: TranscriptFormat | None = None
    pane_is_shared: bool = False
