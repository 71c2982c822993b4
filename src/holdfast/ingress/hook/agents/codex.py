"""Codex CLI: 11 events as JSON on stdin; and the older `notify`, whose JSON is the last argument, in kebab case."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from holdfast.ingress.hook.agents.adapter import SNAKE, Adapter, Native, Payload

NOTIFY = "agent-turn-complete"
DAYS_MAX = 400

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

_NATIVE_ID = re.compile(r"[A-Za-z0-9_-]{8,100}")


def refine(native_event: str, native: Native, payload: Payload) -> tuple[Native, dict[str, Any]]:
    """One turn ends once: `Stop` and `notify` of it share a key. A stop that a hook prolonged is another one."""
    if native.event_type != "agent_stop":
        return native, {}
    more: dict[str, Any] = {}
    said = payload.get("input-messages")
    if isinstance(said, list) and said:
        more["prompt"] = said[-1]
    taken = CODEX.take(payload)
    thread, turn = taken.get("native_id"), taken.get("turn_id")
    if isinstance(thread, str) and isinstance(turn, str) and payload.get("stop_hook_active") is not True:
        more["dedup_key"] = f"codex:{thread}:{turn}:agent_stop"
    return native, more


CODEX = Adapter("codex", EVENTS, FIELDS, named_by=("hook_event_name", "type"), refine=refine)


def find_transcript(native_id: str, home: Path | None = None) -> str | None:
    """The rollout file of a session, by the id at the end of its name; the newest days are looked at first."""
    root = (home or Path(os.environ.get("CODEX_HOME") or Path.home() / ".codex")) / "sessions"
    if not _NATIVE_ID.fullmatch(native_id):
        return None
    looked = 0
    for year in _newest(root):
        for month in _newest(year):
            for day in _newest(month):
                for name in sorted(_names(day), reverse=True):
                    if name.startswith("rollout-") and name.endswith(f"-{native_id}.jsonl"):
                        return str(day / name)
                looked += 1
                if looked >= DAYS_MAX:
                    return None
    return None


def _newest(folder: Path) -> list[Path]:
    return [folder / name for name in sorted(_names(folder), reverse=True) if name.isdigit()]


def _names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []
