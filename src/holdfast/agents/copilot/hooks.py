"""Hooks of Copilot CLI: two payload styles, selected by the spelling of the event name in the configuration.

`agentStop` selects camelCase fields without an event name, which the receiver gets as an argument. `AgentStop` selects
snake_case fields with an event name.
"""

from __future__ import annotations

from holdfast.agents.hooks.hook_format import HookFormat, Meaning, Payload, Refined, value_at

_CAMEL = {
    "sessionStart": Meaning("session_start"),
    "userPromptSubmitted": Meaning("user_prompt_submit"),
    "preToolUse": Meaning("tool_use"),
    "postToolUse": Meaning("tool_done"),
    "postToolUseFailure": Meaning("tool_done", ok=False),
    "permissionRequest": Meaning("notification", reason="permission_request"),
    "notification": Meaning("notification"),
    "agentStop": Meaning("agent_stop"),
    "errorOccurred": Meaning("error", ok=False),
    "subagentStart": Meaning("subagent_start"),
    "subagentStop": Meaning("subagent_stop"),
    "preCompact": Meaning("compact"),
    "sessionEnd": Meaning("session_end"),
}
EVENTS = {
    **_CAMEL,
    **{name[0].upper() + name[1:]: meaning for name, meaning in _CAMEL.items()},
    "UserPromptSubmit": Meaning("user_prompt_submit"),
    "Stop": Meaning("agent_stop"),
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


def refine(native_event: str, meaning: Meaning, payload: Payload) -> Refined:
    result = value_at(payload, "toolResult.resultType") or value_at(payload, "tool_result.result_type")
    if meaning.event_type == "tool_done" and meaning.ok is None and isinstance(result, str):
        return Refined(meaning._replace(ok=result == "success"))
    return Refined(meaning)


HOOKS = HookFormat(EVENTS, FIELDS, refine=refine)
