"""TranscriptEntry: one message, tool call or title in a transcript, and the helpers that the formats share."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Literal

from holdfast.domain.errors import BadInput
from holdfast.domain.event import check_timestamp
from holdfast.domain.json_value import Json, JsonObject

TEXT_MAX = 64_000
TOOL_LINE_MAX = 200
NAME_MAX = 120

Kind = Literal["user", "assistant", "tool", "title", "summary"]

MAIN_ARGUMENTS = (
    "command", "cmd", "file_path", "notebook_path", "absolute_path", "pattern", "query", "url", "path", "dir_path",
    "description", "skill", "subject", "prompt",
)  # fmt: skip
"""Arguments that describe a tool call best, in order of preference."""

INJECTED = ("<task-notification", "<system-reminder")
"""Start of texts in the user's role that a CLI wrote itself. Each format adds its own."""


@dataclass(frozen=True, slots=True)
class TranscriptEntry:
    """One entry of a transcript.

    `id` is the CLI's own id of the message or call, `part` the index within that message, `offset` the byte at which
    its line begins. `injected`: the CLI wrote it, not the user or the model.
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
    """A text that can be stored; a longer one ends with a note about its length.

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
    """A tool call in one line: the tool and its most descriptive argument.

    >>> tool_line("Bash", {"description": "Run them", "command": "make test"})
    'Bash: make test'
    """
    argument = one_line(_main_argument(arguments))
    return f"{one_line(name, NAME_MAX)}: {argument}" if argument else one_line(name, NAME_MAX)


def tool_entry(
    name: object, arguments: object, at: str | None, id: object, part: int, subagent: bool
) -> TranscriptEntry:
    called = text_of(name) or "tool"
    return TranscriptEntry(
        "tool", tool_line(called, arguments), at, id_of(id), part, tool=one_line(called, NAME_MAX), subagent=subagent
    )


def is_injected(text: str, starts: tuple[str, ...] = ()) -> bool:
    """Whether a text in the user's role begins like one that the CLI wrote."""
    return text.lstrip().startswith(INJECTED + starts)


def text_of(value: object) -> str | None:
    """The value if it is a text with content."""
    return clip(value) if isinstance(value, str) and value.strip() else None


def id_of(value: object) -> str | None:
    return one_line(value) if isinstance(value, str) and value.strip() else None


def kind_of(record: JsonObject, name: str = "type") -> str | None:
    """The type field of a line or block, if it is a string."""
    value = record.get(name)
    return value if isinstance(value, str) else None


def object_of(value: object) -> JsonObject:
    return value if isinstance(value, dict) else {}


def list_of(value: object) -> list[Json]:
    return value if isinstance(value, list) else []


def time_of(value: object) -> str | None:
    try:
        return check_timestamp(value)
    except BadInput:
        return None


def _main_argument(arguments: object) -> str:
    if isinstance(arguments, str):
        return arguments
    if not isinstance(arguments, dict):
        return ""
    named = [arguments[name] for name in MAIN_ARGUMENTS if name in arguments]
    for value in [*named, *list(arguments.values())[:20]]:
        if text := _words(value):
            return text
    return json.dumps(arguments)[:TOOL_LINE_MAX] if named else ""


def _words(value: object) -> str:
    """A text, or a command given as a list of words; of `sh -c COMMAND` only the command."""
    if isinstance(value, list) and value and all(isinstance(word, str) for word in value[:100]):
        is_shell = len(value) == 3 and value[1] in ("-c", "-lc")
        return str(value[2]) if is_shell else " ".join(value[:100])
    return value if isinstance(value, str) else ""
