"""Hooks of OpenCode: our plugin runs inside it and sends bus events, tool calls and chat messages."""

from __future__ import annotations

import re

from holdfast.agents.hooks.hook_format import HookFormat, Meaning, Payload, Refined, value_at

EVENTS = {
    "session.created": Meaning("session_start"),
    "chat.message": Meaning("user_prompt_submit"),
    "tool.execute.before": Meaning("tool_use"),
    "tool.execute.after": Meaning("tool_done"),
    "permission.ask": Meaning("notification", reason="permission_request"),
    "permission.asked": Meaning("notification", reason="permission_request"),
    "permission.updated": Meaning("notification", reason="permission_request"),
    "session.idle": Meaning("agent_stop"),
    "session.error": Meaning("error", ok=False),
    "session.compacted": Meaning("compact"),
    "session.deleted": Meaning("session_end"),
}

FIELDS = {
    "native_id": (
        "sessionID", "session_id", "input.sessionID", "properties.sessionID", "properties.info.id",
        "event.properties.sessionID", "event.properties.info.id",
    ),
    "cwd": ("cwd", "directory", "properties.info.directory", "event.properties.info.directory"),
    "prompt": ("prompt", "output.message.text"),
    "answer": ("answer",),  # our plugin keeps the last answer and sends it when the turn ends
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
"""The title that OpenCode gives to a session without one."""


def refine(native_event: str, meaning: Meaning, payload: Payload) -> Refined:
    """Join the parts of a message. The title in a tool event belongs to the tool, so it is dropped."""
    title = HOOKS.extract(payload).get("title")
    if meaning.event_type in ("tool_use", "tool_done") or (isinstance(title, str) and _PLACEHOLDER.fullmatch(title)):
        return Refined(meaning, {"title": None})
    parts = payload.get("parts") or value_at(payload, "output.parts")
    if native_event != "chat.message" or not isinstance(parts, list):
        return Refined(meaning)
    texts = [part.get("text") for part in parts if isinstance(part, dict) and part.get("type") == "text"]
    return Refined(meaning, {"prompt": "\n".join(text for text in texts if isinstance(text, str)) or None})


HOOKS = HookFormat(EVENTS, FIELDS, name_fields=("hook_event_name", "type", "event.type"), refine=refine)
