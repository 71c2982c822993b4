"""Transcripts of Claude Code: one line per block of a message; lines of subagents are marked as sidechains.

The file of a session may begin with a line of a subagent.
"""

from __future__ import annotations

import re

from holdfast.agents.transcripts.transcript_entry import (
    TranscriptEntry,
    id_of,
    is_injected,
    kind_of,
    list_of,
    object_of,
    text_of,
    time_of,
    tool_entry,
)
from holdfast.agents.transcripts.transcript_format import TranscriptFormat
from holdfast.domain.json_value import JsonObject

IGNORED = frozenset({
    "agent-name", "attachment", "file-history-snapshot", "last-prompt", "mode", "permission-mode", "pr-link",
    "progress", "queue-operation", "system",
})  # fmt: skip
"""Known kinds of lines without entries."""

PROGRAMS = frozenset({"system", "loop_wakeup", "schedule_wakeup", "poll_event"})
"""Values of `promptSource` for prompts that neither the user nor the user's program submitted."""

INJECTED = (
    "<local-command-", "<bash-stdout", "<bash-stderr", "<teammate-message", "[Request interrupted by user",
    "Caveat: The messages below were generated", "This session is being continued from a previous conversation",
)  # fmt: skip

_COMMAND = re.compile(r"<command-name>\s*(/?[^<\n]{1,200})</command-name>")
_ARGUMENTS = re.compile(r"<command-args>([^<]{0,4000})</command-args>")
_SHELL = re.compile(r"<bash-input>([^<]{0,4000})</bash-input>")


def entries(record: JsonObject) -> list[TranscriptEntry] | None:
    """The entries of one line, or None if its kind is unknown."""
    match kind_of(record):
        case "user":
            return _user(record)
        case "assistant":
            return _assistant(record)
        case "ai-title":
            return _titled("title", record.get("aiTitle"), record)
        case "custom-title":
            return _titled("title", record.get("customTitle"), record)
        case "summary":
            return _titled("summary", record.get("summary"), record)
        case kind if kind in IGNORED:
            return []
    return None


def _user(record: JsonObject) -> list[TranscriptEntry]:
    content = object_of(record.get("message")).get("content")
    blocks = [object_of(block).get("text") for block in list_of(content) if object_of(block).get("type") == "text"]
    joined = content if isinstance(content, str) else "\n".join(text for text in blocks if isinstance(text, str))
    text = text_of(joined)
    if text is None:
        return []
    typed = _as_typed(text)
    flags = (record.get("isMeta"), record.get("isCompactSummary"), kind_of(record, "promptSource") in PROGRAMS)
    injected = any(flag is True for flag in flags) or (typed is None and is_injected(text, INJECTED))
    return [
        TranscriptEntry(
            "user",
            typed or text,
            time_of(record.get("timestamp")),
            id_of(record.get("uuid")),
            subagent=record.get("isSidechain") is True,
            injected=injected,
        )
    ]


def _as_typed(text: str) -> str | None:
    """The text the user typed for a slash command or a shell line, which the transcript stores in tags."""
    if text.startswith(("<command-name>", "<command-message>")) and (name := _COMMAND.search(text)):
        arguments = _ARGUMENTS.search(text)
        return f"{name[1].strip()} {arguments[1] if arguments else ''}".strip()
    if text.startswith("<bash-input>") and (line := _SHELL.match(text)):
        return f"!{line[1].strip()}"
    return None


def _assistant(record: JsonObject) -> list[TranscriptEntry]:
    message = object_of(record.get("message"))
    at, subagent = time_of(record.get("timestamp")), record.get("isSidechain") is True
    # Texts such as "API Error" and "No response requested" come from the CLI, not from the model.
    injected = record.get("isApiErrorMessage") is True or message.get("model") == "<synthetic>"
    found: list[TranscriptEntry] = []
    content = message.get("content")
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else list_of(content)
    for part, block in enumerate(map(object_of, blocks)):
        match kind_of(block):
            case "text" if text := text_of(block.get("text")):
                id = id_of(record.get("uuid"))
                found.append(TranscriptEntry("assistant", text, at, id, part, subagent=subagent, injected=injected))
            case "tool_use" | "server_tool_use" | "mcp_tool_use":
                found.append(tool_entry(block.get("name"), block.get("input"), at, block.get("id"), part, subagent))
    return found


def _titled(kind: str, value: object, record: JsonObject) -> list[TranscriptEntry]:
    text = text_of(value)
    if text is None:
        return []
    return [TranscriptEntry("title" if kind == "title" else "summary", text, id=id_of(record.get("leafUuid")))]


TRANSCRIPT = TranscriptFormat(entries, title_marks=(b'-title"', b'"summary"'))
