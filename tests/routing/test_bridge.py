"""The bridge: every row of the table of what a host application can say, and what contracts see of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from engine_harness import EngineHarness
from holdfast.domain.errors import BadInput
from holdfast.ingress.bridge import Bridge, BusEvent, EventBus, normalize
from holdfast.store.base import EventFilter

S = {"session_id": "s1"}


@pytest.mark.parametrize(
    ("event", "context", "source", "type", "properties"),
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
def test_every_row_of_the_table(event: str, context: dict[str, Any], source: str, type: str, properties: Any) -> None:
    made = normalize(event, context)
    assert (made.source, made.type, json.loads(made.properties)) == (source, type, properties)
    assert made.stream == ("session:s1" if "session_id" in context else None)


@pytest.mark.parametrize(
    ("event", "context", "told"),
    [("SOMETHING", {}, "no event of the bus"), ("SESSION_STARTED", {}, "session_id is missing"),
     ("AGENT_EVENT", S, "event_type is missing")],
)  # fmt: skip
def test_what_cannot_be_understood_is_refused_to_who_said_it(event: str, context: dict[str, Any], told: str) -> None:
    with pytest.raises(BadInput, match=told):
        normalize(event, context)


async def test_what_is_said_on_the_bus_survives_and_reaches_contracts(tmp_path: Path) -> None:
    harness = await EngineHarness(tmp_path).start()
    await harness.contract(pattern="session.*")
    bus, heard = EventBus(), []

    async def listen(event: BusEvent, context: Any) -> None:
        heard.append(event)

    Bridge(harness.store.events).register(bus)
    bus.subscribe(listen)
    await bus.emit(BusEvent.SESSION_STARTED, session_id="s1", cwd="/src")
    await bus.emit("SESSION_CLOSED", session_id="s1")
    await harness.route()
    await harness.drain()
    assert [claim.event.type for claim in harness.script.seen] == ["session.started", "session.closed"]
    assert harness.script.seen[0].event.payload == {"cwd": "/src"}
    assert heard == [BusEvent.SESSION_STARTED, BusEvent.SESSION_CLOSED]
    assert len((await harness.store.events.find(EventFilter(stream="session:s1"), None, 10)).items) == 2
