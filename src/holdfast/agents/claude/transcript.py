"""Transcripts of Claude Code: a line for each block of a message, subagents' lines marked as sidechains."""

from __future__ import annotations

import re

from holdfast.agents.transcripts.entry import (
    Entry,
    Record,
    id_of,
    is_injected,
    kind_of,
    list_of,
    object_of,
    text_of,
    time_of,
    tool_entry,
)

TITLE_MARKS = (b'-title"', b'"summary"')
SILENT = frozenset({
    "agent-name", "attachment", "file-history-snapshot", "last-prompt", "mode", "permission-mode", "pr-link",
    "progress", "queue-operation", "system",
})  # fmt: skip
"""Kinds of lines that say nothing of what this package reads."""

PROGRAMS = frozenset({"system", "loop_wakeup", "schedule_wakeup", "poll_event"})
"""Values of `promptSource` that are not a person or a person's program."""

_COMMAND = re.compile(r"<command-name>\s*(/?[^<\n]{1,200})</command-name>")
_ARGUMENTS = re.compile(r"<command-args>([^<]{0,4000})</command-args>")
_SHELL = re.compile(r"<bash-input>([^<]{0,4000})</bash-input>")


def entries(record: Record) -> list[Entry] | None:
    """What one line says; None if its kind is not known here."""
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
        case kind if kind in SILENT:
            return []
    return None


def is_subagent(first: Record) -> bool:
    """Each line says it of itself: the file of a session may begin with a subagent's."""
    return False


def _user(record: Record) -> list[Entry]:
    content = object_of(record.get("message")).get("content")
    blocks = [object_of(block).get("text") for block in list_of(content) if object_of(block).get("type") == "text"]
    said = content if isinstance(content, str) else "\n".join(text for text in blocks if isinstance(text, str))
    text = text_of(said)
    if text is None:
        return []
    typed = _as_typed(text)
    marks = (record.get("isMeta"), record.get("isCompactSummary"), kind_of(record, "promptSource") in PROGRAMS)
    injected = any(mark is True for mark in marks) or (typed is None and is_injected(text))
    return [
        Entry(
            "user",
            typed or text,
            time_of(record.get("timestamp")),
            id_of(record.get("uuid")),
            subagent=record.get("isSidechain") is True,
            injected=injected,
        )
    ]


def _as_typed(text: str) -> str | None:
    """A slash command or a shell line is kept in tags; what the user typed stands between them."""
    if text.startswith(("<command-name>", "<command-message>")) and (name := _COMMAND.search(text)):
        arguments = _ARGUMENTS.search(text)
        return f"{name[1].strip()} {arguments[1] if arguments else ''}".strip()
    if text.startswith("<bash-input>") and (line := _SHELL.match(text)):
        return f"!{line[1].strip()}"
    return None


def _assistant(record: Record) -> list[Entry]:
    message = object_of(record.get("message"))
    at, subagent = time_of(record.get("timestamp")), record.get("isSidechain") is True
    # Words such as "API Error" and "No response requested" are the program's, written in the model's place.
    injected = record.get("isApiErrorMessage") is True or message.get("model") == "<synthetic>"
    found: list[Entry] = []
    content = message.get("content")
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else list_of(content)
    for part, block in enumerate(map(object_of, blocks)):
        match kind_of(block):
            case "text" if text := text_of(block.get("text")):
                id = id_of(record.get("uuid"))
                found.append(Entry("assistant", text, at, id, part, subagent=subagent, injected=injected))
            case "tool_use" | "server_tool_use" | "mcp_tool_use":
                found.append(tool_entry(block.get("name"), block.get("input"), at, block.get("id"), part, subagent))
    return found


def _titled(kind: str, value: object, record: Record) -> list[Entry]:
    text = text_of(value)
    if text is None:
        return []
    return [Entry("title" if kind == "title" else "summary", text, id=id_of(record.get("leafUuid")))]
