"""Hooks of Cursor: JSON on standard input. A conversation is a session. It also runs hooks made for Claude Code."""

from __future__ import annotations

from holdfast.agents.claude import hooks as claude
from holdfast.agents.hooks.hook_format import COMMON_FIELDS, RAW, HookFormat, Meaning, Payload, Refined
from holdfast.domain.json_value import JsonObject

EVENTS = {
    **claude.EVENTS,
    "sessionStart": Meaning("session_start"),
    "beforeSubmitPrompt": Meaning("user_prompt_submit"),
    "preToolUse": Meaning("tool_use"),
    "beforeShellExecution": Meaning("tool_use"),
    "beforeMCPExecution": Meaning("tool_use"),
    "beforeReadFile": Meaning("tool_use"),
    "postToolUse": Meaning("tool_done"),
    "postToolUseFailure": Meaning("tool_done", ok=False),
    "afterShellExecution": Meaning("tool_done"),
    "afterMCPExecution": Meaning("tool_done"),
    "afterFileEdit": Meaning("tool_done"),
    "subagentStart": Meaning("subagent_start"),
    "subagentStop": Meaning("subagent_stop"),
    "preCompact": Meaning("compact"),
    "stop": Meaning("agent_stop"),
    "sessionEnd": Meaning("session_end"),
    "afterAgentResponse": RAW,
    "afterAgentThought": RAW,
}

FIELDS = {
    **COMMON_FIELDS,
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


def refine(native_event: str, meaning: Meaning, payload: Payload) -> Refined:
    more: JsonObject = {}
    roots = payload.get("workspace_roots")
    if not payload.get("cwd") and isinstance(roots, list) and roots:
        more["cwd"] = roots[0]
    match native_event, payload.get("status"):
        case "stop", "error":
            return Refined(Meaning("error", ok=False), {**more, "error": payload.get("error") or "error"})
        case "stop", "aborted":
            return Refined(meaning._replace(ok=False), more)
        case "afterAgentResponse", _:
            return Refined(meaning, {**more, "answer": payload.get("text")})
    if native_event in _TOOLS:
        return Refined(meaning, {**more, "tool_name": _TOOLS[native_event]})
    refined = claude.refine(native_event, meaning, payload)
    return Refined(refined.meaning, {**more, **refined.fields})


HOOKS = HookFormat(EVENTS, FIELDS, refine=refine)
