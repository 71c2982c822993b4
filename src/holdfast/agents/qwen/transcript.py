"""Transcripts of Qwen Code: lines chained as in Claude Code, messages in parts as in Gemini CLI."""

from __future__ import annotations

from holdfast.agents.claude import transcript as claude
from holdfast.agents.gemini import transcript as gemini
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


def _user(record: JsonObject) -> list[TranscriptEntry]:
    texts = [part.get("text") for part in _parts(record)]
    text = text_of("\n".join(text for text in texts if isinstance(text, str)))
    if text is None:
        return []
    at, id = time_of(record.get("timestamp")), id_of(record.get("uuid"))
    return [TranscriptEntry("user", text, at, id, injected=is_injected(text, (*claude.INJECTED, *gemini.INJECTED)))]


def _assistant(record: JsonObject) -> list[TranscriptEntry]:
    at, id = time_of(record.get("timestamp")), id_of(record.get("uuid"))
    found: list[TranscriptEntry] = []
    for number, part in enumerate(_parts(record)):
        call = object_of(part.get("functionCall"))
        if call:
            found.append(tool_entry(call.get("name"), call.get("args"), at, call.get("id"), number, False))
        elif part.get("thought") is not True and (text := text_of(part.get("text"))) is not None:
            found.append(TranscriptEntry("assistant", text, at, id, number))
    return found


def _system(record: JsonObject) -> list[TranscriptEntry]:
    title = text_of(object_of(record.get("systemPayload")).get("customTitle"))
    if kind_of(record, "subtype") != "custom_title" or title is None:
        return []
    return [TranscriptEntry("title", title, time_of(record.get("timestamp")))]


def _parts(record: JsonObject) -> list[JsonObject]:
    return [object_of(part) for part in list_of(object_of(record.get("message")).get("parts"))]


TRANSCRIPT = TranscriptFormat(entries, title_marks=(b'"custom_title"',))
