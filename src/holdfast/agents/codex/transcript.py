"""Transcripts of Codex ("rollouts"): the items sent to and from the model, between events about them.

The same words stand in a rollout up to three times: as an item, as an event about the item, and as the last words of a
finished turn. Only the items are read.
"""

from __future__ import annotations

import json
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

TITLE_MARKS = (b'"thread_name_updated"',)
SILENT = frozenset({
    "compacted", "event_msg", "inter_agent_communication", "session_meta", "token_usage_record", "turn_context",
    "world_state",
})  # fmt: skip
SILENT_ITEMS = frozenset({
    "compaction", "compaction_summary", "custom_tool_call_output", "function_call_output", "ghost_snapshot",
    "image_generation_call", "mcp_tool_call_output", "reasoning", "tool_search_output",
})  # fmt: skip

_PATCHED = re.compile(r"^\*\*\* (?:Add|Update|Delete) File: (.{1,300})$", re.MULTILINE)


def entries(record: Record) -> list[Entry] | None:
    """What one line says; None if its kind is not known here."""
    payload, at = object_of(record.get("payload")), time_of(record.get("timestamp"))
    match kind_of(record):
        case "response_item":
            return _item(payload, at)
        case "event_msg" if payload.get("type") == "thread_name_updated":
            title = text_of(payload.get("thread_name"))
            return [] if title is None else [Entry("title", title, at)]
        case kind if kind in SILENT:
            return []
    return None


def is_subagent(first: Record) -> bool:
    """A subagent writes a rollout of its own, and says so in the first line."""
    meta = object_of(first.get("payload"))
    return "subagent" in object_of(meta.get("source")) or meta.get("thread_source") == "subagent"


def _item(item: Record, at: str | None) -> list[Entry] | None:
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
            asked = object_of(item.get("action")) or object_of(item.get("arguments"))
            return [tool_entry(kind.removesuffix("_call"), asked, at, item.get("id") or item.get("call_id"), 0, False)]
        case kind if kind in SILENT_ITEMS:
            return []
    return None


def _message(item: Record, at: str | None) -> list[Entry]:
    pieces = [object_of(piece).get("text") for piece in list_of(item.get("content"))]
    text, id = text_of("\n".join(piece for piece in pieces if isinstance(piece, str))), id_of(item.get("id"))
    if text is None:
        return []
    match item.get("role"):
        case "assistant":
            return [Entry("assistant", text, at, id)]
        case "user":
            return [Entry("user", text, at, id, injected=is_injected(text))]
    return []


def _arguments(item: Record) -> object:
    """The arguments are JSON within JSON."""
    raw = item.get("arguments")
    if not isinstance(raw, str):
        return raw
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        return raw


def _input(item: Record) -> object:
    """Of a patch, the file it begins with tells most."""
    raw = item.get("input")
    patched = _PATCHED.search(raw[:20_000]) if isinstance(raw, str) else None
    return raw if patched is None else patched[1]
