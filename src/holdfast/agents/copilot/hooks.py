"""Copilot CLI: two dialects, chosen by how the configuration spells an event's name.

`agentStop` brings camelCase fields and no event name (the receiver is told it), `AgentStop` snake_case fields with one.
"""

from __future__ import annotations

from typing import Any

from holdfast.agents.hooks.adapter import Adapter, Native, Payload, dig

_CAMEL = {
    "sessionStart": Native("session_start"),
    "userPromptSubmitted": Native("user_prompt_submit"),
    "preToolUse": Native("tool_use"),
    "postToolUse": Native("tool_done"),
    "postToolUseFailure": Native("tool_done", ok=False),
    "permissionRequest": Native("notification", reason="permission_request"),
    "notification": Native("notification"),
    "agentStop": Native("agent_stop"),
    "errorOccurred": Native("error", ok=False),
    "subagentStart": Native("subagent_start"),
    "subagentStop": Native("subagent_stop"),
    "preCompact": Native("compact"),
    "sessionEnd": Native("session_end"),
}
EVENTS = {
    **_CAMEL,
    **{name[0].upper() + name[1:]: native for name, native in _CAMEL.items()},
    "UserPromptSubmit": Native("user_prompt_submit"),
    "Stop": Native("agent_stop"),
}

FIELDS = {
    "native_id": ("sessionId", "session_id"),
    "cwd": ("cwd",),
    "transcript": ("transcriptPath", "transcript_path"),
    "prompt": ("prompt", "initialPrompt", "initial_prompt"),
    "answer": ("lastAssistantMessage", "last_assistant_message"),
    "message": ("message", "error.message"),
    "tool_name": ("toolName", "tool_name"),
    "error": ("error.name", "error"),
    "source": ("source",),
    "reason": ("reason", "notification_type", "stopReason", "stop_reason", "trigger"),
    "model": ("model",),
    "subagent_type": ("agentName", "agent_name"),
}


def refine(native_event: str, native: Native, payload: Payload) -> tuple[Native, dict[str, Any]]:
    result = dig(payload, "toolResult.resultType") or dig(payload, "tool_result.result_type")
    if native.event_type == "tool_done" and native.ok is None and isinstance(result, str):
        return native._replace(ok=result == "success"), {}
    return native, {}


COPILOT = Adapter("copilot", EVENTS, FIELDS, refine=refine)
