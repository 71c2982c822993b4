"""AgentCli: everything that Holdfast knows about one agent CLI, as one value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from holdfast.agents.hooks.hook_format import HookFormat
from holdfast.agents.install.hook_config import HookConfig
from holdfast.agents.install.mcp_config import McpConfig
from holdfast.agents.messages.native_queue import NativeQueue
from holdfast.agents.messages.terminal import Terminal
from holdfast.agents.transcripts.transcript_format import TranscriptFormat


@dataclass(frozen=True, slots=True)
class AgentCli:
    """One agent CLI: its hook events, the config files that hold its hooks, and its transcripts if they can be read.

    `name` is what the receiver gets as `--agent`; it is also the first part of session ids. `pane_is_shared` is true
    for a CLI whose hooks run in one background process for several terminals: the tmux pane that such a hook reports
    is often the pane of another session. `terminal` is how the CLI behaves in a terminal; without it, messages cannot
    be typed into its sessions. `mcp` is where it lists its MCP servers. `queue` is a queue of messages that the CLI
    itself keeps; it is preferred to the terminal. `stand_in` is the module of a program that behaves like the CLI in a
    terminal, for the proof. `resume` is the command that continues a session, by the CLI's own id, for a CLI that
    reports its start at once.
    """

    name: str
    hooks: HookFormat
    install: HookConfig
    transcript: TranscriptFormat | None = None
    pane_is_shared: bool = False
    terminal: Terminal | None = None
    mcp: McpConfig | None = None
    queue: NativeQueue | None = None
    stand_in: str = ""
    resume: Callable[[str], tuple[str, ...]] | None = None
