"""Transcripts of Gemini CLI: a log in which a message is written again, under the same id, when it grows.

A message appears first with its text and again with its tool calls, and a `$set` line may repeat all messages. So the
same entry may be read more than once, always with the same id and part.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from holdfast.agents.transcripts.folder_listing import (
    FOLDERS_MAX,
    MINUTE_PATTERN,
    list_files,
    list_folders,
    user_home,
)
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
from holdfast.agents.transcripts.transcript_file import open_transcript
from holdfast.agents.transcripts.transcript_format import TranscriptFormat
from holdfast.domain.errors import BadInput
from holdfast.domain.json_value import JsonObject

IGNORED = frozenset({"info", "error", "warning"})
INJECTED = ("<session_context",)
MESSAGES_MAX = 10_000


def entries(record: JsonObject) -> list[TranscriptEntry] | None:
    """The entries of one line, or None if its kind is unknown."""
    if "$rewindTo" in record:
        return []
    change = record.get("$set")
    if isinstance(change, dict):
        return _changed(change)
    if "sessionId" in record and "type" not in record:
        return _changed(record)
    return _message(record)


def is_subagent(first: JsonObject) -> bool:
    return first.get("kind") == "subagent"


def written_at(line: JsonObject) -> object:
    return line.get("timestamp") or line.get("startTime") or object_of(line.get("$set")).get("lastUpdated")


def search(native_id: str, variables: Mapping[str, str]) -> Iterator[Path]:
    """`tmp/<project>/chats/session-2026-11-15T22-16-<first 8 of the id>.jsonl`, newest first."""
    root = Path(variables.get("GEMINI_CLI_HOME") or user_home(variables)) / ".gemini" / "tmp"
    name = re.compile(rf"session-{MINUTE_PATTERN}-{re.escape(native_id[:8])}\.jsonl")
    paths = [path for project in list_folders(root)[:FOLDERS_MAX] for path in list_files(project / "chats", name)]
    newest_first = sorted(paths, key=lambda path: path.name, reverse=True)
    return (path for path in newest_first if _is_of_session(path, native_id))


def _is_of_session(path: Path, native_id: str) -> bool:
    """The file name holds only the beginning of the id; the first line holds all of it."""
    try:
        with open_transcript(str(path)) as file:
            return file.first().get("sessionId") == native_id
    except (OSError, BadInput):
        return False


def _changed(change: JsonObject) -> list[TranscriptEntry]:
    messages = list_of(change.get("messages"))[:MESSAGES_MAX]
    entries = [entry for message in messages for entry in _message(object_of(message)) or []]
    title = text_of(change.get("summary"))
    if title is not None:
        entries.append(TranscriptEntry("title", title, time_of(change.get("lastUpdated"))))
    return entries


def _message(message: JsonObject) -> list[TranscriptEntry] | None:
    at, id = time_of(message.get("timestamp")), id_of(message.get("id"))
    text = _text(message.get("content"))
    match kind_of(message):
        case "user":
            return [] if text is None else [TranscriptEntry("user", text, at, id, injected=is_injected(text, INJECTED))]
        case "gemini":
            texts = [] if text is None else [TranscriptEntry("assistant", text, at, id)]
            return [*texts, *_calls(message, at)]
        case kind if kind in IGNORED:
            return []
    return None


def _calls(message: JsonObject, at: str | None) -> list[TranscriptEntry]:
    calls = enumerate(map(object_of, list_of(message.get("toolCalls"))), start=1)
    return [tool_entry(call.get("name"), call.get("args"), at, call.get("id"), part, False) for part, call in calls]


def _text(content: object) -> str | None:
    """The text of a message: a string, or a list of parts, where parts without text are tool results."""
    if isinstance(content, str):
        return text_of(content)
    parts = [object_of(part).get("text") if isinstance(part, dict) else part for part in list_of(content)]
    return text_of("".join(part for part in parts if isinstance(part, str)))


TRANSCRIPT = TranscriptFormat(
    entries, title_marks=(b'"summary"',), is_subagent=is_subagent, written_at=written_at, search=search
)
