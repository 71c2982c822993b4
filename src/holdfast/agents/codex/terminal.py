"""Codex CLI in a terminal. Observed with the versions listed in `TERMINAL`."""

from __future__ import annotations

import re

from holdfast.agents.messages.native_queue import NativeQueue
from holdfast.agents.messages.screen import Screen
from holdfast.agents.messages.terminal import Terminal
from holdfast.agents.messages.tmux import Questions
from holdfast.domain.session import Session

_PROMPT = "›"
_FOOTER = re.compile(r"  \S.* · \S.*")
_SPINNER = re.compile("[⠀-⣿] ")


def _find_box(screen: Screen) -> str | None:
    """The lines from the prompt mark to the line with model and folder. Earlier prompts have a faint mark."""
    starts = [at for at, line in enumerate(screen.lines) if line.typed.startswith(_PROMPT)]
    if not starts:
        return None
    below = screen.lines[starts[-1] :]
    ends = [at for at, line in enumerate(below) if at > 0 and _FOOTER.fullmatch(line.plain) and not below[at - 1].plain]
    if not ends:
        return None
    box = [line.typed for line in below[: ends[-1]]]
    return "\n".join([box[0][len(_PROMPT) :], *box[1:]])


TERMINAL = Terminal(
    versions=("0.166.0", "0.169.0"),
    commands=("node", "codex"),
    find_box=_find_box,
    questions=Questions(
        lines=("^  [Pp]ress enter to (confirm|continue)", "^  Hooks need review"),
        titles=("Action Required",),
    ),
    is_busy=lambda screen: _SPINNER.match(screen.title) is not None,
    pasted=re.compile(r"\[Pasted Content \d+ chars\](?: #\d+)?"),
    submit=("Tab",),  # cannot approve; while the agent works it queues the message as a turn of its own
    settle_s=0.05,
)


def _environment(session: Session) -> dict[str, str]:
    """Transcripts are in the folder `sessions` of the home of Codex, which hooks do not report."""
    home, found, _ = (session.transcript or "").partition("/sessions/")
    return {"CODEX_HOME": home} if found and home.startswith("/") else {}


QUEUE = NativeQueue(
    program="codex",
    words=lambda session, text: ["queue", "--thread", session.native_id, f"--message={text}"],
    environment=_environment,
    is_unknown=lambda complaint: "unrecognized subcommand" in complaint,
)
