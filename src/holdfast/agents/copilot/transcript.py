"""Transcripts of Copilot CLI: `session-state/<id>/events.jsonl`, one line per event of a session.

Every kind except `abort` has a dot in its name. Most kinds are about the CLI itself and have no entries.
"""

from __future__ import annotations

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


def entries(record: JsonObject) -> list[TranscriptEntry] | None:
    """The entries of one line, or None if its kind is unknown."""
    data = object_of(record.get("data"))
    match kind_of(record):
        case "user.message":
            return _user(record, data)
        case "assistant.message":
            return _assistant(record, data)
        case "session.title_changed":
            title = text_of(data.get("title"))
            return [] if title is None else [TranscriptEntry("title", title, time_of(record.get("timestamp")))]
        case str(kind) if "." in kind or kind == "abort":
            return []
    return None


def _user(record: JsonObject, data: JsonObject) -> list[TranscriptEntry]:
    text = text_of(data.get("content"))
    if text is None:
        return []
    other = data.get("source") not in (None, "", "user") or data.get("isAutopilotContinuation") is True
    at, id = time_of(record.get("timestamp")), id_of(record.get("id"))
    return [
        TranscriptEntry("user", text, at, id, subagent=_is_subagent(record, data), injected=other or is_injected(text))
    ]


def _assistant(record: JsonObject, data: JsonObject) -> list[TranscriptEntry]:
    at, subagent = time_of(record.get("timestamp")), _is_subagent(record, data)
    text = text_of(data.get("content"))
    texts = [] if text is None else [TranscriptEntry("assistant", text, at, id_of(record.get("id")), subagent=subagent)]
    calls = enumerate(map(object_of, list_of(data.get("toolRequests"))), start=1)
    return [
        *texts,
        *(tool_entry(c.get("name"), c.get("arguments"), at, c.get("toolCallId"), part, subagent) for part, c in calls),
    ]


def _is_subagent(record: JsonObject, data: JsonObject) -> bool:
    return text_of(record.get("agentId")) is not None or text_of(data.get("parentToolCallId")) is not None


TRANSCRIPT = TranscriptFormat(entries, title_marks=(b'"session.title_changed"',), is_late=True)
