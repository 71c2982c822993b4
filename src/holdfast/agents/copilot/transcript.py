"""Transcripts of Copilot CLI: `session-state/<id>/events.jsonl`, one line for each event of a session.

Every kind has a dot in its name, and most of them tell of the program's own doings.
"""

from __future__ import annotations

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

TITLE_MARKS = (b'"session.title_changed"',)


def entries(record: Record) -> list[Entry] | None:
    """What one line says; None if its kind is not known here."""
    data = object_of(record.get("data"))
    match kind_of(record):
        case "user.message":
            return _user(record, data)
        case "assistant.message":
            return _assistant(record, data)
        case "session.title_changed":
            title = text_of(data.get("title"))
            return [] if title is None else [Entry("title", title, time_of(record.get("timestamp")))]
        case str(kind) if "." in kind or kind == "abort":
            return []
    return None


def is_subagent(first: Record) -> bool:
    """Each line says it of itself."""
    return False


def _user(record: Record, data: Record) -> list[Entry]:
    text = text_of(data.get("content"))
    if text is None:
        return []
    other = data.get("source") not in (None, "", "user") or data.get("isAutopilotContinuation") is True
    at, id = time_of(record.get("timestamp")), id_of(record.get("id"))
    return [Entry("user", text, at, id, subagent=_is_below(record, data), injected=other or is_injected(text))]


def _assistant(record: Record, data: Record) -> list[Entry]:
    at, below = time_of(record.get("timestamp")), _is_below(record, data)
    text = text_of(data.get("content"))
    said = [] if text is None else [Entry("assistant", text, at, id_of(record.get("id")), subagent=below)]
    calls = enumerate(map(object_of, list_of(data.get("toolRequests"))), start=1)
    return [
        *said,
        *(tool_entry(c.get("name"), c.get("arguments"), at, c.get("toolCallId"), part, below) for part, c in calls),
    ]


def _is_below(record: Record, data: Record) -> bool:
    return text_of(record.get("agentId")) is not None or text_of(data.get("parentToolCallId")) is not None
