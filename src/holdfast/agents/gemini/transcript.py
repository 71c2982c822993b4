"""Transcripts of Gemini CLI: a log of messages that are written anew, under the same id, when something is added.

A message comes first with its words, and again with the tools it called; and all of them may come again in a `$set`.
So the same entry may be read more than once, always with the same id and part.
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

TITLE_MARKS = (b'"summary"',)
SILENT = frozenset({"info", "error", "warning"})
MESSAGES_MAX = 10_000


def entries(record: Record) -> list[Entry] | None:
    """What one line says; None if its kind is not known here."""
    if "$rewindTo" in record:
        return []
    change = record.get("$set")
    if isinstance(change, dict):
        return _changed(change)
    if "sessionId" in record and "type" not in record:
        return _changed(record)
    return _message(record)


def is_subagent(first: Record) -> bool:
    return first.get("kind") == "subagent"


def _changed(change: Record) -> list[Entry]:
    found = [entry for message in list_of(change.get("messages"))[:MESSAGES_MAX] for entry in _said(message)]
    title = text_of(change.get("summary"))
    if title is not None:
        found.append(Entry("title", title, time_of(change.get("lastUpdated"))))
    return found


def _said(message: object) -> list[Entry]:
    return _message(object_of(message)) or []


def _message(message: Record) -> list[Entry] | None:
    at, id = time_of(message.get("timestamp")), id_of(message.get("id"))
    text = _words(message.get("content"))
    match kind_of(message):
        case "user":
            return [] if text is None else [Entry("user", text, at, id, injected=is_injected(text))]
        case "gemini":
            said = [] if text is None else [Entry("assistant", text, at, id)]
            return [*said, *_calls(message, at)]
        case kind if kind in SILENT:
            return []
    return None


def _calls(message: Record, at: str | None) -> list[Entry]:
    calls = enumerate(map(object_of, list_of(message.get("toolCalls"))), start=1)
    return [tool_entry(call.get("name"), call.get("args"), at, call.get("id"), part, False) for part, call in calls]


def _words(content: object) -> str | None:
    """Text, or a list of parts, of which those that are no text are results of tools."""
    if isinstance(content, str):
        return text_of(content)
    parts = [object_of(part).get("text") if isinstance(part, dict) else part for part in list_of(content)]
    return text_of("".join(part for part in parts if isinstance(part, str)))
