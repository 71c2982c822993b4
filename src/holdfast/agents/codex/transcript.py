"""Transcripts of Codex ("rollouts"): the items sent to and from the model, between events about them.

A rollout contains the same text up to three times: as an item, as an event about the item, and as the last message of
a finished turn. Only the items are read.
"""

from __future__ import annotations

import json
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
from holdfast.agents.transcripts.transcript_format import TranscriptFormat
from holdfast.domain.json_value import JsonObject

IGNORED = frozenset({
    "compacted", "event_msg", "inter_agent_communication", "session_meta", "token_usage_record", "turn_context",
    "world_state",
})  # fmt: skip
IGNORED_ITEMS = frozenset({
    "compaction", "compaction_summary", "custom_tool_call_output", "function_call_output", "ghost_snapshot",
    "image_generation_call", "mcp_tool_call_output", "reasoning", "tool_search_output",
})  # fmt: skip

INJECTED = (
    "<environment_context", "<user_instructions", "<turn_aborted", "<subagent_notification",
    "# AGENTS.md instructions",
)  # fmt: skip

_PATCHED = re.compile(r"^\*\*\* (?:Add|Update|Delete) File: (.{1,300})$", re.MULTILINE)


def entries(record: JsonObject) -> list[TranscriptEntry] | None:
    """The entries of one line, or None if its kind is unknown."""
    payload, at = object_of(record.get("payload")), time_of(record.get("timestamp"))
    match kind_of(record):
        case "response_item":
            return _item(payload, at)
        case "event_msg" if payload.get("type") == "thread_name_updated":
            title = text_of(payload.get("thread_name"))
            return [] if title is None else [TranscriptEntry("title", title, at)]
        case kind if kind in IGNORED:
            return []
    return None


def is_subagent(first: JsonObject) -> bool:
    """A subagent writes its own rollout; the first line identifies it."""
    meta = object_of(first.get("payload"))
    return "subagent" in object_of(meta.get("source")) or meta.get("thread_source") == "subagent"


def search(native_id: str, variables: Mapping[str, str]) -> Iterator[Path]:
    """`sessions/2026/11/15/rollout-2026-11-15T22-15-59-<id>.jsonl`, newest day first."""
    root = Path(variables.get("CODEX_HOME") or user_home(variables) / ".codex")
    name = re.compile(rf"rollout-{MINUTE_PATTERN}-\d\d-{re.escape(native_id)}\.jsonl")
    searched = 0
    for year in list_folders(root / "sessions"):
        for month in list_folders(year):
            for day in list_folders(month):
                searched += 1
                if searched > FOLDERS_MAX:
                    return
                yield from list_files(day, name)


def _item(item: JsonObject, at: str | None) -> list[TranscriptEntry] | None:
    match kind_of(item):
        case "message":
            return _message(item, at)
        case "function_call":
            return [tool_entry(item.get("name"), _arguments(item), at, item.get("call_id"), 0, False)]
        case "custom_tool_call":
            return [tool_entry(item.get("name"), _input(item), at, item.get("call_id"), 0, False)]
        case "local_shell_call":
            return [tool_entry("shell", item.get("action"), at, item.get("call_id"), 0, False)]
        case "web_search_call" | "tool_search_call" as kind:
            arguments = object_of(item.get("action")) or object_of(item.get("arguments"))
            return [
                tool_entry(kind.removesuffix("_call"), arguments, at, item.get("id") or item.get("call_id"), 0, False)
            ]
        case kind if kind in IGNORED_ITEMS:
            return []
    return None


def _message(item: JsonObject, at: str | None) -> list[TranscriptEntry]:
    pieces = [object_of(piece).get("text") for piece in list_of(item.get("content"))]
    text, id = text_of("\n".join(piece for piece in pieces if isinstance(piece, str))), id_of(item.get("id"))
    if text is None:
        return []
    match item.get("role"):
        case "assistant":
            return [TranscriptEntry("assistant", text, at, id)]
        case "user":
            return [TranscriptEntry("user", text, at, id, injected=is_injected(text, INJECTED))]
    return []


def _arguments(item: JsonObject) -> object:
    """The arguments, which are JSON in a JSON string."""
    raw = item.get("arguments")
    if not isinstance(raw, str):
        return raw
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        return raw


def _input(item: JsonObject) -> object:
    """The input of a tool; for a patch, the first file it changes."""
    raw = item.get("input")
    patched = _PATCHED.search(raw[:20_000]) if isinstance(raw, str) else None
    return raw if patched is None else patched[1]


TRANSCRIPT = TranscriptFormat(entries, title_marks=(b'"thread_name_updated"',), is_subagent=is_subagent, search=search)
