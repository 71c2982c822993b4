"""Entry: one thing that was said or done in a session, and the small readings that the formats share."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from holdfast.domain.errors import BadInput
from holdfast.domain.event import check_timestamp

TEXT_MAX = 64_000
TOOL_LINE_MAX = 200
NAME_MAX = 120

Kind = Literal["user", "assistant", "tool", "title", "summary"]
Record = Mapping[str, Any]

TELLING = (
    "command", "cmd", "file_path", "notebook_path", "absolute_path", "pattern", "query", "url", "path", "dir_path",
    "description", "skill", "subject", "prompt",
)  # fmt: skip
"""The arguments that tell most about a call, the most telling first."""

INJECTED = (
    "<task-notification", "<system-reminder", "<local-command-", "<bash-stdout", "<bash-stderr", "<session_context",
    "<environment_context", "<user_instructions", "<turn_aborted", "<subagent_notification", "<teammate-message",
    "# AGENTS.md instructions", "Caveat: The messages below were generated", "[Request interrupted by user",
    "This session is being continued from a previous conversation",
)  # fmt: skip
"""How texts begin that stand where the user's would, and that a program wrote."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing in a transcript.

    `id` is the format's own name for the message or call, `part` its place within that message, `offset` the byte
    at which its line begins. `injected`: a program put it there, not the user or the model.
    """

    kind: Kind
    text: str
    at: str | None = None
    id: str | None = None
    part: int = 0
    tool: str | None = None
    subagent: bool = False
    injected: bool = False
    offset: int = 0


def clip(text: str, limit: int = TEXT_MAX) -> str:
    """A text that can be stored, whole or with a mark where it was cut.

    >>> clip("abcdef", 3)
    'abc… [cut: 6 characters]'
    """
    kept = text[:limit].encode("utf-8", "replace").decode().replace("\x00", "\ufffd")
    return kept if len(text) <= limit else f"{kept}… [cut: {len(text):,} characters]"


def one_line(text: str, limit: int = TOOL_LINE_MAX) -> str:
    """
    >>> one_line("make  \\n test")
    'make test'
    """
    line = " ".join(text[: 8 * limit].split())
    shown = "".join(c if c.isprintable() else "\ufffd" for c in line[:limit])
    return shown if len(line) <= limit and len(text) <= 8 * limit else shown + "…"


def tool_line(name: str, arguments: object) -> str:
    """A call in one line: the tool, and the argument that tells most.

    >>> tool_line("Bash", {"description": "Run them", "command": "make test"})
    'Bash: make test'
    """
    told = one_line(_telling(arguments))
    return f"{one_line(name, NAME_MAX)}: {told}" if told else one_line(name, NAME_MAX)


def tool_entry(name: object, arguments: object, at: str | None, id: object, part: int, subagent: bool) -> Entry:
    called = text_of(name) or "tool"
    return Entry(
        "tool", tool_line(called, arguments), at, id_of(id), part, tool=one_line(called, NAME_MAX), subagent=subagent
    )


def is_injected(text: str) -> bool:
    return text.lstrip().startswith(INJECTED)


def text_of(value: object) -> str | None:
    """The text, if it is one and not empty."""
    return clip(value) if isinstance(value, str) and value.strip() else None


def id_of(value: object) -> str | None:
    return one_line(value) if isinstance(value, str) and value.strip() else None


def kind_of(record: Record, name: str = "type") -> str | None:
    """The word that says what a thing is; a value of any other kind says nothing."""
    value = record.get(name)
    return value if isinstance(value, str) else None


def object_of(value: object) -> Record:
    return value if isinstance(value, dict) else {}


def list_of(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def time_of(value: object) -> str | None:
    try:
        return check_timestamp(value)
    except BadInput:
        return None


def _telling(arguments: object) -> str:
    if isinstance(arguments, str):
        return arguments
    if not isinstance(arguments, dict):
        return ""
    named = [arguments[name] for name in TELLING if name in arguments]
    for value in [*named, *list(arguments.values())[:20]]:
        if text := _words(value):
            return text
    return json.dumps(arguments)[:TOOL_LINE_MAX] if named else ""


def _words(value: object) -> str:
    """A command may be a list of words; behind `sh -c` only the last one tells anything."""
    if isinstance(value, list) and value and all(isinstance(word, str) for word in value[:100]):
        is_shell = len(value) == 3 and value[1] in ("-c", "-lc")
        return str(value[2]) if is_shell else " ".join(value[:100])
    return value if isinstance(value, str) else ""
