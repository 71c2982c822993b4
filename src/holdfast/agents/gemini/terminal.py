"""Gemini CLI in a terminal. Observed with the versions listed in `TERMINAL`."""

from __future__ import annotations

import re

from holdfast.agents.messages.screen import Screen
from holdfast.agents.messages.terminal import Terminal
from holdfast.agents.messages.tmux import Questions

_PROMPT = " > "
_HINT = "Type your message or @path/to/file"
_FOOTER_LINES = 2


def _find_box(screen: Screen) -> str | None:
    """The lines from the prompt mark above the cursor to the footer. Earlier prompts look the same, but the cursor
    stands in the box only."""
    _, row = screen.cursor
    start = next((at for at in range(min(row, len(screen.lines) - 1), -1, -1) if _starts(screen, at)), None)
    used = [at for at, line in enumerate(screen.lines) if line.plain]
    if start is None or len(used) <= _FOOTER_LINES or row >= used[-_FOOTER_LINES]:
        return None
    lines = [line.typed for line in screen.lines[start : used[-_FOOTER_LINES]]]
    if any(line.plain.startswith(("╭", "│", "✦", "╰")) for line in screen.lines[start : row + 1]):
        return None
    box = "\n".join([screen.lines[start].plain[len(_PROMPT) :].replace(_HINT, ""), *lines[1:]])
    return re.sub("[▀▄]{3,}", "", box)


def _starts(screen: Screen, at: int) -> bool:
    line = screen.lines[at].plain
    return line.startswith(_PROMPT) or line == _PROMPT.rstrip()


TERMINAL = Terminal(
    versions=("0.61.0",),
    commands=("node", "gemini"),
    find_box=_find_box,
    questions=Questions(lines=("^│ ● [0-9]+[.] ",), titles=("Action Required",)),
    is_busy=lambda screen: screen.title.startswith("✦"),
    pasted=re.compile(r"\[Pasted Text: \d+ (?:lines|chars)\](?: #\d+)?"),
    settle_s=0.35,  # earlier, Enter adds a line instead of submitting
)
