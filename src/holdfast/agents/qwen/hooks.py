"""Qwen Code: Claude's event names and fields, with a timestamp."""

from __future__ import annotations

from typing import Any

from holdfast.agents.claude import hooks as claude
from holdfast.agents.hooks.adapter import RAW, SNAKE, Adapter, Native, Payload

NAMES = (
    "SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "PostToolUseFailure", "Notification",
    "PermissionRequest", "Stop", "StopFailure", "SubagentStart", "SubagentStop", "PreCompact", "PostCompact",
    "SessionEnd",
)  # fmt: skip


def refine(native_event: str, native: Native, payload: Payload) -> tuple[Native, dict[str, Any]]:
    """Without a terminal it fires `UserPromptSubmit` again after every tool, with nothing in it: nobody asked."""
    if native_event == "UserPromptSubmit" and payload.get("prompt") == "":
        return RAW, {}
    return claude.refine(native_event, native, payload)


QWEN = Adapter("qwen", {name: claude.EVENTS[name] for name in NAMES}, SNAKE, refine=refine)
