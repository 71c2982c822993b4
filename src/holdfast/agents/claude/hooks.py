"""Claude Code: 33 events, JSON on stdin."""

from __future__ import annotations

from typing import Any

from holdfast.agents.hooks.adapter import RAW, SNAKE, Adapter, Native, Payload

EVENTS = {
    "SessionStart": Native("session_start"),
    "UserPromptSubmit": Native("user_prompt_submit"),
    "PreToolUse": Native("tool_use"),
    "PostToolUse": Native("tool_done", ok=True),
    "PostToolUseFailure": Native("tool_done", ok=False),
    "Notification": Native("notification"),
    "PermissionRequest": Native("notification", reason="permission_request"),
    "Elicitation": Native("notification", reason="elicitation"),
    "Stop": Native("agent_stop"),
    "StopFailure": Native("error", ok=False),
    "SubagentStart": Native("subagent_start"),
    "SubagentStop": Native("subagent_stop"),
    "PreCompact": Native("compact"),
    "PostCompact": Native("compact"),
    "SessionEnd": Native("session_end"),
    "ConfigChange": RAW,
    "CwdChanged": RAW,
    "DirectoryAdded": RAW,
    "ElicitationResult": RAW,
    "FileChanged": RAW,
    "InstructionsLoaded": RAW,
    "MessageDisplay": RAW,
    "PermissionDenied": Native("raw", ok=False),
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
"""Whose prompts are the user's own: typed, or sent by the user's program."""


def refine(native_event: str, native: Native, payload: Payload) -> tuple[Native, dict[str, Any]]:
    match native_event:
        case "Stop" if payload.get("background_tasks") or payload.get("session_crons"):
            return native, {"background": True}
        case "UserPromptSubmit" if payload.get("source") not in (None, *OWN_SOURCES):
            return native, {"injected": True}
        case "StopFailure":  # its last message is the error in words, not an answer
            said = payload.get("error_details") or payload.get("last_assistant_message")
            return native, {"message": said, "answer": None}
        case "CwdChanged" if payload.get("new_cwd"):
            return native, {"cwd": payload["new_cwd"]}
        case "PostModelSwitch" if payload.get("to_model"):
            return native, {"model": payload["to_model"]}
    return native, {}


CLAUDE = Adapter("claude", EVENTS, SNAKE, refine=refine)
