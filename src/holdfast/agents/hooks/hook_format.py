"""HookFormat: how one agent CLI names its hook events and the fields in their payloads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from holdfast.domain.json_value import Json, JsonObject

Payload = Mapping[str, Json]


class Meaning(NamedTuple):
    """The meaning of a native event: our event type, success or failure, and a reason if the payload has none."""

    event_type: str
    ok: bool | None = None
    reason: str | None = None


RAW = Meaning("raw")
"""An event without a counterpart here. It is stored but changes no session."""


class Refined(NamedTuple):
    """A meaning after a look at the payload, and fields that replace the extracted ones."""

    meaning: Meaning
    fields: Mapping[str, Json] = {}


def keep_meaning(native_event: str, meaning: Meaning, payload: Payload) -> Refined:
    return Refined(meaning)


@dataclass(frozen=True, slots=True)
class HookFormat:
    """The hooks of one CLI as data.

    `events` maps native event names to meanings. `fields` maps our field names to payload paths such as
    `properties.info.id`; the first path with a value is used. `name_fields` are the payload paths that hold the native
    event name. `refine` handles what these tables cannot express.
    """

    events: Mapping[str, Meaning]
    fields: Mapping[str, tuple[str, ...]]
    name_fields: tuple[str, ...] = ("hook_event_name",)
    refine: Callable[[str, Meaning, Payload], Refined] = keep_meaning

    def event_name(self, payload: Payload, argument: str | None) -> str | None:
        """The native event name from the payload or the receiver's argument; a known name takes precedence."""
        candidates = [*(value_at(payload, path) for path in self.name_fields), argument]
        names = [name for name in candidates if isinstance(name, str) and name]
        return next((name for name in names if name in self.events), names[0] if names else None)

    def extract(self, payload: Payload) -> JsonObject:
        """The fields that the payload contains, under our names."""
        extracted: JsonObject = {}
        for name, paths in self.fields.items():
            values = (value_at(payload, path) for path in paths)
            value = next((value for value in values if value is not None and value != ""), None)
            if value is not None:
                extracted[name] = value
        return extracted


def value_at(payload: Payload, path: str) -> Json:
    """The value at a path such as `properties.info.id`, or None.

    >>> value_at({"info": {"id": "s1"}}, "info.id")
    's1'
    """
    first, *rest = path.split(".")
    value = payload.get(first)
    for part in rest:
        value = value.get(part) if isinstance(value, dict) else None
    return value


COMMON_FIELDS: Mapping[str, tuple[str, ...]] = {
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
"""Field names that most CLIs share."""
