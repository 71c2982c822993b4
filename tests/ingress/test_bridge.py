"""The bridge: every row of its table, from the fields of a host application to the event that contracts see."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holdfast.ingress.bridge import normalize

S = {"session_id": "s1"}


@pytest.mark.parametrize(
    ("kind", "fields", "source", "type", "properties"),
    [
        ("SESSION_STARTED", S, "system", "session.started", S),
        ("SESSION_CLOSED", S, "system", "session.closed", S),
        ("SESSION_UPDATED", S, "system", "session.updated", S),
        (
            "AGENT_EVENT", {**S, "event_type": "agent_stop"}, "agent", "agent.agent_stop",
            {**S, "agent_event_type": "agent_stop"},
        ),
        (
            "AGENT_ACTIVITY", {**S, "event_type": "tool_use", "tool_name": "Bash"}, "agent",
            "agent.activity.tool_use", {**S, "agent_event_type": "tool_use", "tool_name": "Bash"},
        ),
        (
            "AGENT_ACTIVITY", {**S, "event_type": "tool_done"}, "agent", "agent.activity.tool_done",
            {**S, "agent_event_type": "tool_done"},
        ),
        (
            "ERROR", {**S, "severity": "critical", "source": "hooks", "code": "E1"}, "system", "error.critical",
            {**S, "severity": "critical", "error_source": "hooks", "error_code": "E1"},
        ),
        (
            "ERROR", {"message": "no session"}, "system", "error.error",
            {"severity": "error", "error_source": "application", "error_code": "UNKNOWN"},
        ),
    ],
)  # fmt: skip
def test_every_row_of_the_table(kind: str, fields: dict[str, Any], source: str, type: str, properties: Any) -> None:
    event = normalize(kind, fields)
    assert (event.source, event.type, json.loads(event.properties)) == (source, type, properties)
    assert event.stream == ("session:s1" if "session_id" in fields else None)


def test_the_payload_holds_the_fields_that_are_not_properties():
    event = normalize("AGENT_ACTIVITY", {**S, "event_type": "tool_use", "tool_name": "Bash", "payload": {"ok": True}})
    assert json.loads(event.payload) == {"event_type": "tool_use", "ok": True}
