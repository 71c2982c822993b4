"""OpenCode: a plugin inside it hands over what happens: events of its bus, tools at work, chat messages."""

from __future__ import annotations

import re
from typing import Any

from holdfast.agents.hooks.adapter import Adapter, Native, Payload, dig

EVENTS = {
    "session.created": Native("session_start"),
    "chat.message": Native("user_prompt_submit"),
    "tool.execute.before": Native("tool_use"),
    "tool.execute.after": Native("tool_done"),
    "permission.ask": Native("notification", reason="permission_request"),
    "permission.asked": Native("notification", reason="permission_request"),
    "permission.updated": Native("notification", reason="permission_request"),
    "session.idle": Native("agent_stop"),
    "session.error": Native("error", ok=False),
    "session.compacted": Native("compact"),
    "session.deleted": Native("session_end"),
}

FIELDS = {
    "native_id": (
        "sessionID", "session_id", "input.sessionID", "properties.sessionID", "properties.info.id",
        "event.properties.sessionID", "event.properties.info.id",
    ),
    "cwd": ("cwd", "directory", "properties.info.directory", "event.properties.info.directory"),
    "prompt": ("prompt", "output.message.text"),
    "answer": ("answer",),  # our plugin remembers what was said, and tells it when the turn ends
    "message": (
        "properties.title", "properties.error.data.message", "event.properties.title",
        "event.properties.error.data.message",
    ),
    "tool_name": ("tool", "tool_name", "input.tool"),
    "error": ("properties.error.name", "event.properties.error.name", "error"),
    "title": ("title", "properties.info.title", "event.properties.info.title"),
    "model": ("model.modelID", "input.model.modelID"),
}  # fmt: skip


_PLACEHOLDER = re.compile(r"(New|Child) session - \d{4}-\d\d-\d\dT[\d:.]+Z")
"""The title of a session that has none yet."""


def refine(native_event: str, native: Native, payload: Payload) -> tuple[Native, dict[str, Any]]:
    """A message's text comes in parts. The title beside a tool's output is the tool's."""
    title = OPENCODE.take(payload).get("title")
    if native.event_type in ("tool_use", "tool_done") or (isinstance(title, str) and _PLACEHOLDER.fullmatch(title)):
        return native, {"title": None}
    parts = payload.get("parts") or dig(payload, "output.parts")
    if native_event != "chat.message" or not isinstance(parts, list):
        return native, {}
    texts = [part.get("text") for part in parts if isinstance(part, dict) and part.get("type") == "text"]
    return native, {"prompt": "\n".join(text for text in texts if isinstance(text, str)) or None}


OPENCODE = Adapter("opencode", EVENTS, FIELDS, named_by=("hook_event_name", "type", "event.type"), refine=refine)
