"""Hooks of Qwen Code: the event names and fields of Claude Code, with a timestamp."""

from __future__ import annotations

from holdfast.agents.claude import hooks as claude
from holdfast.agents.hooks.hook_format import COMMON_FIELDS, RAW, HookFormat, Meaning, Payload, Refined

NAMES = (
    "SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "PostToolUseFailure", "Notification",
    "PermissionRequest", "Stop", "StopFailure", "SubagentStart", "SubagentStop", "PreCompact", "PostCompact",
    "SessionEnd",
)  # fmt: skip


def refine(native_event: str, meaning: Meaning, payload: Payload) -> Refined:
    """Without a terminal, Qwen sends `UserPromptSubmit` with an empty prompt after every tool: not a user's prompt."""
    if native_event == "UserPromptSubmit" and payload.get("prompt") == "":
        return Refined(RAW)
    return claude.refine(native_event, meaning, payload)


HOOKS = HookFormat({name: claude.EVENTS[name] for name in NAMES}, COMMON_FIELDS, refine=refine)
