"""Codex CLI: 11 events as JSON on stdin; and the older `notify`, whose JSON is the last argument, in kebab case."""

from __future__ import annotations

from typing import Any

from holdfast.agents.hooks.adapter import RAW, SNAKE, Adapter, Native, Payload

NOTIFY = "agent-turn-complete"
TITLING = "Generate a concise, single-line task title"
"""How Codex asks a thread of its own, which is nobody's session, for the title of another."""

EVENTS = {
    "SessionStart": Native("session_start"),
    "UserPromptSubmit": Native("user_prompt_submit"),
    "PreToolUse": Native("tool_use"),
    "PostToolUse": Native("tool_done"),  # it does not say how the tool fared
    "PermissionRequest": Native("notification", reason="permission_request"),
    "Stop": Native("agent_stop"),
    NOTIFY: Native("agent_stop"),
    "SubagentStart": Native("subagent_start"),
    "SubagentStop": Native("subagent_stop"),
    "PreCompact": Native("compact"),
    "PostCompact": Native("compact"),
    "SessionEnd": Native("session_end"),
}

FIELDS = {
    **SNAKE,
    "native_id": ("session_id", "thread-id"),
    "turn_id": ("turn_id", "turn-id"),
    "answer": ("last_assistant_message", "last-assistant-message"),
}


def refine(native_event: str, native: Native, payload: Payload) -> tuple[Native, dict[str, Any]]:
    """One turn ends once: `Stop` and `notify` of it share a key. A stop that a hook prolonged is another one."""
    if native.event_type != "agent_stop":
        return native, {}
    more: dict[str, Any] = {}
    said = payload.get("input-messages")
    if isinstance(said, list) and said:
        if isinstance(said[0], str) and said[0].startswith(TITLING):
            return RAW, {"injected": True}
        more["prompt"] = said[-1]
    taken = CODEX.take(payload)
    thread, turn = taken.get("native_id"), taken.get("turn_id")
    if isinstance(thread, str) and isinstance(turn, str) and payload.get("stop_hook_active") is not True:
        more["dedup_key"] = f"codex:{thread}:{turn}:agent_stop"
    return native, more


CODEX = Adapter("codex", EVENTS, FIELDS, named_by=("hook_event_name", "type"), refine=refine)
