"""Adapter: how one agent CLI names its events and fields."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

Payload = Mapping[str, Any]


class Native(NamedTuple):
    """What a native event means: our type, how it went, and why where the payload does not say."""

    event_type: str
    ok: bool | None = None
    reason: str | None = None


RAW = Native("raw")


def _as_is(native_event: str, native: Native, payload: Payload) -> tuple[Native, dict[str, Any]]:
    return native, {}


@dataclass(frozen=True, slots=True)
class Adapter:
    """One CLI as data: its events, and under which names the things stand that we take from a payload.

    `refine` has the last word where a table cannot say it: it answers the meaning, and texts to use instead.
    """

    agent: str
    events: Mapping[str, Native]
    fields: Mapping[str, tuple[str, ...]]
    named_by: tuple[str, ...] = ("hook_event_name",)
    refine: Callable[[str, Native, Payload], tuple[Native, dict[str, Any]]] = field(default=_as_is)

    def name_of(self, payload: Payload, told: str | None) -> str | None:
        """The native event's name: what the payload says, else what the receiver was told; a known one rather."""
        said = [*(dig(payload, name) for name in self.named_by), told]
        names = [name for name in said if isinstance(name, str) and name]
        return next((name for name in names if name in self.events), names[0] if names else None)

    def take(self, payload: Payload) -> dict[str, Any]:
        """The fields that are there, under our names."""
        found = {}
        for ours, names in self.fields.items():
            value = next((value for name in names if (value := dig(payload, name)) not in (None, "")), None)
            if value is not None:
                found[ours] = value
        return found


def dig(payload: Any, path: str) -> Any:
    """What stands at a path such as `properties.info.id`; None where it leads nowhere."""
    for part in path.split("."):
        payload = payload.get(part) if isinstance(payload, Mapping) else None
    return payload


SNAKE: Mapping[str, tuple[str, ...]] = {
    "native_id": ("session_id",),
    "cwd": ("cwd",),
    "transcript": ("transcript_path",),
    "prompt": ("prompt",),
    "answer": ("last_assistant_message",),
    "message": ("message",),
    "tool_name": ("tool_name",),
    "error": ("error",),
    "source": ("source",),
    "reason": ("reason", "notification_type", "trigger"),
    "title": ("session_title",),
    "model": ("model",),
    "turn_id": ("turn_id", "prompt_id"),
    "subagent_id": ("agent_id",),
    "subagent_type": ("agent_type",),
}
"""The names that Claude Code began and most others follow."""
