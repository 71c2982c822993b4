"""Transcripts of Qwen Code: Claude's way to chain lines, Gemini's way to write a message in parts."""

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

TITLE_MARKS = (b'"custom_title"',)


def entries(record: Record) -> list[Entry] | None:
    """What one line says; None if its kind is not known here."""
    match kind_of(record):
        case "user":
            return _user(record)
        case "assistant":
            return _assistant(record)
        case "system":
            return _system(record)
        case "tool_result":
            return []
    return None


def is_subagent(first: Record) -> bool:
    return False


def _user(record: Record) -> list[Entry]:
    texts = [part.get("text") for part in _parts(record)]
    text = text_of("\n".join(text for text in texts if isinstance(text, str)))
    if text is None:
        return []
    at, id = time_of(record.get("timestamp")), id_of(record.get("uuid"))
    return [Entry("user", text, at, id, injected=is_injected(text))]


def _assistant(record: Record) -> list[Entry]:
    at, id = time_of(record.get("timestamp")), id_of(record.get("uuid"))
    found: list[Entry] = []
    for number, part in enumerate(_parts(record)):
        call = object_of(part.get("functionCall"))
        if call:
            found.append(tool_entry(call.get("name"), call.get("args"), at, call.get("id"), number, False))
        elif part.get("thought") is not True and (text := text_of(part.get("text"))) is not None:
            found.append(Entry("assistant", text, at, id, number))
    return found


def _system(record: Record) -> list[Entry]:
    title = text_of(object_of(record.get("systemPayload")).get("customTitle"))
    if kind_of(record, "subtype") != "custom_title" or title is None:
        return []
    return [Entry("title", title, time_of(record.get("timestamp")))]


def _parts(record: Record) -> list[Record]:
    return [object_of(part) for part in list_of(object_of(record.get("message")).get("parts"))]
