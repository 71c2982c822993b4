"""Cursor: JSON on stdin; a session is a conversation. It can also run hooks written for Claude Code."""

from __future__ import annotations

from typing import Any

from holdfast.agents.claude import hooks as claude
from holdfast.agents.hooks.adapter import RAW, SNAKE, Adapter, Native, Payload

EVENTS = {
    **claude.EVENTS,
    "sessionStart": Native("session_start"),
    "beforeSubmitPrompt": Native("user_prompt_submit"),
    "preToolUse": Native("tool_use"),
    "beforeShellExecution": Native("tool_use"),
    "beforeMCPExecution": Native("tool_use"),
    "beforeReadFile": Native("tool_use"),
    "postToolUse": Native("tool_done"),
    "postToolUseFailure": Native("tool_done", ok=False),
    "afterShellExecution": Native("tool_done"),
    "afterMCPExecution": Native("tool_done"),
    "afterFileEdit": Native("tool_done"),
    "subagentStart": Native("subagent_start"),
    "subagentStop": Native("subagent_stop"),
    "preCompact": Native("compact"),
    "stop": Native("agent_stop"),
    "sessionEnd": Native("session_end"),
    "afterAgentResponse": RAW,
    "afterAgentThought": RAW,
}

FIELDS = {
    **SNAKE,
    "native_id": ("conversation_id", "session_id"),
    "turn_id": ("generation_id", "prompt_id"),
    "reason": ("reason", "status", "notification_type", "trigger"),
}

_TOOLS = {
    "beforeShellExecution": "Shell",
    "afterShellExecution": "Shell",
    "beforeReadFile": "Read",
    "afterFileEdit": "Edit",
}


def refine(native_event: str, native: Native, payload: Payload) -> tuple[Native, dict[str, Any]]:
    more: dict[str, Any] = {}
    roots = payload.get("workspace_roots")
    if not payload.get("cwd") and isinstance(roots, list) and roots:
        more["cwd"] = roots[0]
    match native_event, payload.get("status"):
        case "stop", "error":
            return Native("error", ok=False), {**more, "error": payload.get("error") or "error"}
        case "stop", "aborted":
            return native._replace(ok=False), more
        case "afterAgentResponse", _:
            return native, {**more, "answer": payload.get("text")}
    if native_event in _TOOLS:
        return native, {**more, "tool_name": _TOOLS[native_event]}
    refined, claudes = claude.refine(native_event, native, payload)
    return refined, {**more, **claudes}


CURSOR = Adapter("cursor", EVENTS, FIELDS, refine=refine)
