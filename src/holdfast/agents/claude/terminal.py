"""Claude Code in a terminal. Observed with the versions listed in `TERMINAL`."""

from __future__ import annotations

import re

from holdfast.agents.messages.screen import Screen
from holdfast.agents.messages.terminal import Terminal
from holdfast.agents.messages.tmux import Questions

_PROMPT = "❯\u00a0"  # with a no-break space; earlier prompts and the marks of dialogs have a plain one
_RULE = re.compile(r"[─━]{10,}.*")


def _find_box(screen: Screen) -> str | None:
    """The lines from the prompt mark in the first column to the rule below."""
    starts = [at for at, line in enumerate(screen.lines) if line.plain.startswith(_PROMPT) or line.plain == "❯"]
    if not starts:
        return None
    box: list[str] = []
    for line in screen.lines[starts[-1] :]:
        if _RULE.match(line.plain):
            return "\n".join([box[0][len(_PROMPT) :], *box[1:]])
        box.append(line.typed)
    return None


def _is_busy(screen: Screen) -> bool:
    return any("esc to interrupt" in line.plain for line in screen.lines)


TERMINAL = Terminal(
    versions=("2.1.197", "2.1.325", "2.1.327"),
    commands=("claude", "node"),
    find_box=_find_box,
    # One blank before the mark: texts of prompts and answers are indented by two, and earlier prompts not at all.
    questions=Questions(lines=("^ ❯ [0-9]+[.] ", "^ Esc to cancel", "^ Enter to (confirm|select)")),
    is_busy=_is_busy,
    pasted=re.compile(r"\[Pasted text #\d+(?: \+\d+ lines)?\]"),
    submit_idle=("C-x", "C-s"),  # while the agent works they would interrupt it
    submit_idle_since=(2, 1, 325),  # earlier ones have C-s alone, which puts the text aside
    settle_s=0.05,
)
