"""Qwen Code: Claude's event names and fields, with a timestamp."""

from __future__ import annotations

from holdfast.ingress.hook.agents import claude
from holdfast.ingress.hook.agents.adapter import SNAKE, Adapter

NAMES = (
    "SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "PostToolUseFailure", "Notification",
    "PermissionRequest", "Stop", "StopFailure", "SubagentStart", "SubagentStop", "PreCompact", "PostCompact",
    "SessionEnd",
)  # fmt: skip

QWEN = Adapter("qwen", {name: claude.EVENTS[name] for name in NAMES}, SNAKE, refine=claude.refine)
