"""The events of agent sessions: one function for each row of the table.

| occasion | source | type | properties |
|---|---|---|---|
| a session started, changed, ended | `system` | `session.started`, `.updated`, `.closed` | `session_id` |
| an agent's event | `agent` | `agent.<event>` | `session_id`, `agent_event_type` |
| a tool call | `agent` | `agent.activity.<event>` | `session_id`, `agent_event_type`, `tool_name` if known |
| text of an agent or a tool | `agent` | `agent.output` | `session_id`, `kind` |
| an error | `system` | `error.<severity>` | `session_id` if known, `severity`, `error_source`, `error_code` |
"""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.domain.event import NewEvent, new_event
from holdfast.domain.json_value import without_none
from holdfast.domain.session import STREAM_PREFIX

SEVERITY_DEFAULT = "error"


def session_event(change: str, session_id: str, payload: object = None, **more: object) -> NewEvent:
    """`change` is started, updated or closed."""
    return _on_session(f"session.{change}", "system", session_id, payload, more)


def agent_event(event_type: str, session_id: str, payload: object = None, **more: object) -> NewEvent:
    return _on_session(f"agent.{event_type}", "agent", session_id, payload, {"agent_event_type": event_type, **more})


def agent_activity(
    event_type: str, session_id: str, payload: object = None, *, tool_name: str | None = None, **more: object
) -> NewEvent:
    facts = {"agent_event_type": event_type, "tool_name": tool_name, **more}
    return _on_session(f"agent.activity.{event_type}", "agent", session_id, payload, facts)


def agent_output(kind: str, session_id: str, payload: object, *, dedup_key: str, **more: object) -> NewEvent:
    """`kind` is the author of the text: assistant or tool."""
    return _on_session("agent.output", "agent", session_id, payload, {"kind": kind, **more}, dedup_key)


def error_event(
    payload: object,
    *,
    session_id: str | None = None,
    severity: str = SEVERITY_DEFAULT,
    error_source: str,
    error_code: str,
    stream: str | None = None,
) -> NewEvent:
    facts = {"session_id": session_id, "severity": severity, "error_source": error_source, "error_code": error_code}
    own_stream = stream if session_id is None else STREAM_PREFIX + session_id
    return new_event(f"error.{severity}", payload, source="system", stream=own_stream, properties=without_none(facts))


def _on_session(
    type: str, source: str, session_id: str, payload: object, facts: Mapping[str, object], dedup_key: str | None = None
) -> NewEvent:
    return new_event(
        type,
        payload,
        source=source,
        stream=STREAM_PREFIX + session_id,
        properties={"session_id": session_id, **without_none(facts)},
        dedup_key=dedup_key,
    )
