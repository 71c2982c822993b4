"""Hooks of Claude Code: 33 events, JSON on standard input."""

from __future__ import annotations

from holdfast.agents.hooks.hook_format import COMMON_FIELDS, RAW, HookFormat, Meaning, Payload, Refined

EVENTS = {
    "SessionStart": Meaning("session_start"),
    "UserPromptSubmit": Meaning("user_prompt_submit"),
    "PreToolUse": Meaning("tool_use"),
    "PostToolUse": Meaning("tool_done", ok=True),
    "PostToolUseFailure": Meaning("tool_done", ok=False),
    "Notification": Meaning("notification"),
    "PermissionRequest": Meaning("notification", reason="permission_request"),
    "Elicitation": Meaning("notification", reason="elicitation"),
    "Stop": Meaning("agent_stop"),
    "StopFailure": Meaning("error", ok=False),
    "SubagentStart": Meaning("subagent_start"),
    "SubagentStop": Meaning("subagent_stop"),
    "PreCompact": Meaning("compact"),
    "PostCompact": Meaning("compact"),
    "SessionEnd": Meaning("session_end"),
    "ConfigChange": RAW,
    "CwdChanged": RAW,
    "DirectoryAdded": RAW,
    "ElicitationResult": RAW,
    "FileChanged": RAW,
    "InstructionsLoaded": RAW,
    "MessageDisplay": RAW,
    "PermissionDenied": Meaning("raw", ok=False),
    "PostModelSwitch": RAW,
    "PostToolBatch": RAW,
    "PreModelSwitch": RAW,
    "Setup": RAW,
    "TaskCompleted": RAW,
    "TaskCreated": RAW,
    "TeammateIdle": RAW,
    "UserPromptExpansion": RAW,
    "WorktreeCreate": RAW,
    "WorktreeRemove": RAW,
}

OWN_SOURCES = frozenset({"user", "sdk"})
"""Sources of prompts that the user typed or that the user's own program sent."""


def refine(native_event: str, meaning: Meaning, payload: Payload) -> Refined:
    match native_event:
        case "Stop" if payload.get("background_tasks") or payload.get("session_crons"):
            return Refined(meaning, {"background": True})
        case "UserPromptSubmit" if payload.get("source") not in (None, *OWN_SOURCES):
            return Refined(meaning, {"injected": True})
        case "StopFailure":  # its last message describes the error and is no answer
            message = payload.get("error_details") or payload.get("last_assistant_message")
            return Refined(meaning, {"message": message, "answer": None})
        case "CwdChanged" if payload.get("new_cwd"):
            return Refined(meaning, {"cwd": payload["new_cwd"]})
        case "PostModelSwitch" if payload.get("to_model"):
            return Refined(meaning, {"model": payload["to_model"]})
    return Refined(meaning)


HOOKS = HookFormat(EVENTS, COMMON_FIELDS, refine=refine)
