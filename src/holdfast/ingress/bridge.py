"""The bridge: from the six kinds of a host application's event bus to events that contracts match.

| kind | required fields | event type | source | properties |
|---|---|---|---|---|
| `SESSION_STARTED` | `session_id` | `session.started` | `system` | `session_id` |
| `SESSION_CLOSED` | `session_id` | `session.closed` | `system` | `session_id` |
| `SESSION_UPDATED` | `session_id` | `session.updated` | `system` | `session_id` |
| `AGENT_EVENT` | `session_id`, `event_type` | `agent.<event_type>` | `agent` | `session_id`, `agent_event_type` |
| `AGENT_ACTIVITY` | `session_id`, `event_type` | `agent.activity.<event_type>` | `agent` | the same, and `tool_name` |
| `ERROR` | none | `error.<severity>` | `system` | `session_id`, `severity`, `error_source`, `error_code` |
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from holdfast.domain.agent_events import SEVERITY_DEFAULT, agent_activity, agent_event, error_event, session_event
from holdfast.domain.errors import BadInput
from holdfast.domain.event import NewEvent
from holdfast.domain.json_value import Json, JsonObject, text_in
from holdfast.domain.text import short_repr
from holdfast.ingress.accept import reject_unknown_keys


class BusEvent(StrEnum):
    """The kinds of event that a host application emits."""

    SESSION_STARTED = "SESSION_STARTED"
    SESSION_CLOSED = "SESSION_CLOSED"
    SESSION_UPDATED = "SESSION_UPDATED"
    AGENT_EVENT = "AGENT_EVENT"
    AGENT_ACTIVITY = "AGENT_ACTIVITY"
    ERROR = "ERROR"


class Fields(NamedTuple):
    """The fields of one kind. `payload`, a mapping for anything else, is allowed with every kind."""

    required: tuple[str, ...]
    optional: tuple[str, ...] = ()

    @property
    def known(self) -> tuple[str, ...]:
        return (*self.required, *self.optional, "payload")


FIELDS: Mapping[BusEvent, Fields] = {
    BusEvent.SESSION_STARTED: Fields(("session_id",)),
    BusEvent.SESSION_CLOSED: Fields(("session_id",)),
    BusEvent.SESSION_UPDATED: Fields(("session_id",), ("updated_fields",)),
    BusEvent.AGENT_EVENT: Fields(("session_id", "event_type"), ("data",)),
    BusEvent.AGENT_ACTIVITY: Fields(("session_id", "event_type"), ("tool_name", "tool_preview", "summary")),
    BusEvent.ERROR: Fields(
        (),
        ("session_id", "message", "severity", "error_source", "error_code", "source", "code", "details", "retryable"),
    ),
}


def parse_kind(kind: BusEvent | str) -> BusEvent:
    try:
        return BusEvent(str(kind).upper())
    except ValueError:
        raise BadInput(f"the bus has no event {short_repr(kind)}; use one of {', '.join(BusEvent)}") from None


def normalize(kind: BusEvent | str, fields: Mapping[str, Json]) -> NewEvent:
    """The event that contracts see. Its payload holds the fields that are not properties, and `payload`.

    >>> normalize("AGENT_EVENT", {"session_id": "s1", "event_type": "agent_stop"}).type
    'agent.agent_stop'
    """
    kind = parse_kind(kind)
    _check_fields(kind, fields)
    payload = _payload(kind, fields)
    session_id, event_type = text_in(fields, "session_id") or "", text_in(fields, "event_type") or ""
    match kind:
        case BusEvent.SESSION_STARTED | BusEvent.SESSION_CLOSED | BusEvent.SESSION_UPDATED:
            return session_event(kind.value.removeprefix("SESSION_").lower(), session_id, payload)
        case BusEvent.AGENT_EVENT:
            return agent_event(event_type, session_id, payload)
        case BusEvent.AGENT_ACTIVITY:
            return agent_activity(event_type, session_id, payload, tool_name=text_in(fields, "tool_name"))
        case BusEvent.ERROR:
            return error_event(
                payload,
                session_id=session_id or None,
                severity=text_in(fields, "severity") or SEVERITY_DEFAULT,
                error_source=str(fields.get("error_source") or fields.get("source") or "application"),
                error_code=str(fields.get("error_code") or fields.get("code") or "UNKNOWN"),
            )


def _check_fields(kind: BusEvent, fields: Mapping[str, Json]) -> None:
    reject_unknown_keys(fields, FIELDS[kind].known, kind.value, "field")
    for name in FIELDS[kind].required:
        value = fields.get(name)
        if value is None or value == "":
            raise BadInput(f"{kind.value} needs the field {name}")
    for name in ("session_id", "event_type", "tool_name", "severity", "error_source", "error_code"):
        value = fields.get(name)
        if value is not None and not isinstance(value, str):
            raise BadInput(f"{kind.value}: {name} must be text, not {short_repr(value)}")


def _payload(kind: BusEvent, fields: Mapping[str, Json]) -> JsonObject:
    more = fields.get("payload") or {}
    if not isinstance(more, Mapping):
        raise BadInput(f"{kind.value}: payload must be a mapping of names and values, not {short_repr(more)}")
    properties = ("session_id", "tool_name", "payload")
    return {**{name: value for name, value in fields.items() if name not in properties}, **more}
