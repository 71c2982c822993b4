"""Hooks of Codex CLI: 11 events as JSON on standard input, and the older `notify`.

`notify` passes JSON with kebab-case names as the last argument.
"""

from __future__ import annotations

from holdfast.agents.hooks.hook_format import COMMON_FIELDS, RAW, HookFormat, Meaning, Payload, Refined
from holdfast.domain.json_value import JsonObject

NOTIFY = "agent-turn-complete"
TITLE_PROMPT = "Generate a concise, single-line task title"
"""Start of the prompt by which Codex has an internal thread write the title of a session."""

EVENTS = {
    "SessionStart": Meaning("session_start"),
    "UserPromptSubmit": Meaning("user_prompt_submit"),
    "PreToolUse": Meaning("tool_use"),
    "PostToolUse": Meaning("tool_done"),  # the payload does not contain the result's status
    "PermissionRequest": Meaning("notification", reason="permission_request"),
    "Stop": Meaning("agent_stop"),
    NOTIFY: Meaning("agent_stop"),
    "SubagentStart": Meaning("subagent_start"),
    "SubagentStop": Meaning("subagent_stop"),
    "PreCompact": Meaning("compact"),
    "PostCompact": Meaning("compact"),
    "SessionEnd": Meaning("session_end"),
}

FIELDS = {
    **COMMON_FIELDS,
    "native_id": ("session_id", "thread-id"),
    "turn_id": ("turn_id", "turn-id"),
    "answer": ("last_assistant_message", "last-assistant-message"),
}


def refine(native_event: str, meaning: Meaning, payload: Payload) -> Refined:
    """Give `Stop` and `notify` of one turn the same dedup key. A turn that a hook prolonged ends again."""
    if meaning.event_type != "agent_stop":
        return Refined(meaning)
    more: JsonObject = {}
    prompts = payload.get("input-messages")
    if isinstance(prompts, list) and prompts:
        if isinstance(prompts[0], str) and prompts[0].startswith(TITLE_PROMPT):
            return Refined(RAW, {"injected": True})
        more["prompt"] = prompts[-1]
    fields = HOOKS.extract(payload)
    thread, turn = fields.get("native_id"), fields.get("turn_id")
    if isinstance(thread, str) and isinstance(turn, str) and payload.get("stop_hook_active") is not True:
        more["dedup_key"] = f"codex:{thread}:{turn}:agent_stop"
    return Refined(meaning, more)


HOOKS = HookFormat(EVENTS, FIELDS, name_fields=("hook_event_name", "type"), refine=refine)
