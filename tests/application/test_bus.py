"""`outbox.bus`: the events of a host application become durable, and contracts receive them."""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from daemon import Daemon
from forked import in_fork
from holdfast import BadInput, Event, Outbox, StoreError
from holdfast.ingress.bridge import BusEvent
from holdfast.store.open import migrate_store, open_store
from holdfast.store.roles.events import EventFilter
from holdfast.testing.outbox import RecordingOutbox
from postgres import fresh_schema, sqlite_and_postgres, start

TIMEOUT_S = 60.0
EVENTS: list[tuple[str, dict[str, Any], str, str, dict[str, Any]]] = [
    ("SESSION_STARTED", {"session_id": "s1"}, "system", "session.started", {"session_id": "s1"}),
    ("SESSION_UPDATED", {"session_id": "s1"}, "system", "session.updated", {"session_id": "s1"}),
    ("AGENT_EVENT", {"session_id": "s1", "event_type": "agent_stop"}, "agent", "agent.agent_stop",
     {"session_id": "s1", "agent_event_type": "agent_stop"}),
    ("AGENT_ACTIVITY", {"session_id": "s1", "event_type": "tool_use", "tool_name": "Bash"}, "agent",
     "agent.activity.tool_use", {"session_id": "s1", "agent_event_type": "tool_use", "tool_name": "Bash"}),
    ("ERROR", {"session_id": "s1", "severity": "fatal", "error_source": "tmux", "error_code": "E7"}, "system",
     "error.fatal", {"session_id": "s1", "severity": "fatal", "error_source": "tmux", "error_code": "E7"}),
    ("SESSION_CLOSED", {"session_id": "s1"}, "system", "session.closed", {"session_id": "s1"}),
]  # fmt: skip


@pytest.fixture(params=sqlite_and_postgres())
def url(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """An empty store with Holdfast's tables."""
    monkeypatch.setenv("HOLDFAST_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("HOLDFAST_CONFIG", raising=False)
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path}/app.db"
        migrate_store(url, own=False, driver="sqlite3")
        yield url
        return
    server, schema = start(str(request.param)), fresh_schema()
    migrate_store(server.url(schema), own=False)
    yield server.url(schema)
    server.psql(f"DROP SCHEMA {schema} CASCADE;")


@pytest.fixture
def outbox(url: str) -> Iterator[Outbox]:
    outbox = Outbox(url)
    yield outbox
    outbox.bus.close()


async def stored(url: str, stream: str = "session:s1") -> list[Event]:
    store = open_store(url, driver="sqlite3", create=False)
    try:
        return await store.events.read(stream, 0, 100)
    finally:
        await store.close()


def as_rows(events: list[Event]) -> list[tuple[str, str, dict[str, Any]]]:
    return [(event.source, event.type, event.properties) for event in events]


async def test_all_six_kinds_are_stored_in_the_order_they_were_emitted(outbox: Outbox, url: str) -> None:
    appended = [await outbox.bus.emit(kind, **fields) for kind, fields, *_ in EVENTS]
    assert {kind for kind, *_ in EVENTS} == set(BusEvent)
    assert [one.seq for one in appended] == [1, 2, 3, 4, 5, 6]
    assert as_rows(await stored(url)) == [(source, type, expected) for _, _, source, type, expected in EVENTS]


async def test_a_contract_receives_all_six_kinds_from_an_application_that_delivers(outbox: Outbox) -> None:
    received: asyncio.Queue[Event] = asyncio.Queue()

    @outbox.on("*", source=["system", "agent"], ordered=True)
    async def receive(event: Event) -> None:
        received.put_nowait(event)

    async with outbox.lifespan(), asyncio.timeout(TIMEOUT_S):
        for kind, fields, *_ in EVENTS:
            await outbox.bus.emit(kind, **fields)
        events = [await received.get() for _ in EVENTS]
    assert as_rows(events) == [(source, type, expected) for _, _, source, type, expected in EVENTS]


async def test_inside_a_lifespan_the_bus_opens_no_connection_of_its_own(outbox: Outbox) -> None:
    async with outbox.lifespan():
        await outbox.bus.emit("SESSION_STARTED", session_id="s1")
        assert outbox.bus._connection is None
    await outbox.bus.emit("SESSION_CLOSED", session_id="s1")
    assert outbox.bus._connection is not None
    assert [event.type for event in await stored(outbox.url)] == ["session.started", "session.closed"]


def test_code_without_an_event_loop_emits_and_blocks_until_the_event_is_stored(outbox: Outbox, url: str) -> None:
    appended = outbox.bus.emit_now("SESSION_STARTED", session_id="s1")
    (event,) = asyncio.run(stored(url))
    assert (event.id, event.type) == (appended.id, "session.started")


async def test_emit_now_is_refused_where_it_would_block_an_event_loop(outbox: Outbox) -> None:
    with pytest.raises(BadInput, match=r"use: await outbox\.bus\.emit"):
        outbox.bus.emit_now("SESSION_STARTED", session_id="s1")


def test_one_bus_serves_several_event_loops_one_after_the_other(outbox: Outbox, url: str) -> None:
    for kind in ("SESSION_STARTED", "SESSION_UPDATED", "SESSION_CLOSED"):
        asyncio.run(outbox.bus.emit(kind, session_id="s1"))
    assert [event.seq for event in asyncio.run(stored(url))] == [1, 2, 3]


async def test_a_hundred_concurrent_events_are_all_stored(outbox: Outbox, url: str) -> None:
    await asyncio.gather(*(outbox.bus.emit("AGENT_EVENT", session_id="s1", event_type=f"e{n}") for n in range(100)))
    assert {event.type for event in await stored(url)} == {f"agent.e{n}" for n in range(100)}


def test_a_forked_child_opens_a_connection_of_its_own_except_to_a_file_of_its_parent(outbox: Outbox, url: str) -> None:
    """On SQLite a child would use the file without locks, so it gets an error and the parent continues."""
    outbox.bus.emit_now("SESSION_STARTED", session_id="s1")
    result = in_fork(lambda: outbox.bus.emit_now("SESSION_UPDATED", session_id="s1"))
    assert result is None if url.startswith("postgresql") else "was open when this process was forked" in str(result)
    outbox.bus.emit_now("SESSION_CLOSED", session_id="s1")
    kinds = [event.type for event in asyncio.run(stored(url))]
    assert kinds == ["session.started", *(["session.updated"] if result is None else []), "session.closed"]


def test_a_bus_that_is_closed_before_a_fork_can_be_used_in_the_child(outbox: Outbox, url: str) -> None:
    outbox.bus.emit_now("SESSION_STARTED", session_id="s1")
    outbox.bus.close()
    assert in_fork(lambda: outbox.bus.emit_now("SESSION_CLOSED", session_id="s1")) is None
    assert [event.type for event in asyncio.run(stored(url))] == ["session.started", "session.closed"]


def test_a_forked_child_may_be_the_first_to_use_the_bus(outbox: Outbox, url: str) -> None:
    assert in_fork(lambda: outbox.bus.emit_now("SESSION_STARTED", session_id="s1")) is None
    assert [event.type for event in asyncio.run(stored(url))] == ["session.started"]


def test_a_fork_while_another_thread_opens_the_bus_blocks_nothing(outbox: Outbox, url: str) -> None:
    with outbox.bus._opening:  # in the child there is no thread that would release it
        assert in_fork(lambda: outbox.bus.emit_now("SESSION_STARTED", session_id="s1")) is None
    assert [event.type for event in asyncio.run(stored(url))] == ["session.started"]


@pytest.mark.parametrize(
    ("kind", "fields", "message"),
    [
        ("SOMETHING", {}, "the bus has no event 'SOMETHING'; use one of SESSION_STARTED"),
        ("SESSION_STARTED", {}, "SESSION_STARTED needs the field session_id"),
        ("AGENT_EVENT", {"session_id": "s1"}, "AGENT_EVENT needs the field event_type"),
        ("SESSION_STARTED", {"sesion_id": "s1"}, "SESSION_STARTED has an unknown field 'sesion_id'; did you mean"),
        ("SESSION_CLOSED", {"session_id": "s1", "x": 1}, "unknown field 'x'; known are session_id, payload"),
        ("SESSION_CLOSED", {"session_id": 7}, "SESSION_CLOSED: session_id must be text, not 7"),
        ("ERROR", {"payload": "text"}, "ERROR: payload must be a mapping"),
    ],
)
async def test_an_event_that_cannot_be_stored_names_the_field(tmp_path: Path, kind: str, fields: Any, message: str):
    with pytest.raises(BadInput) as refused:
        await Outbox(f"sqlite:///{tmp_path}/app.db").bus.emit(kind, **fields)
    assert message in str(refused.value)
    assert not (tmp_path / "app.db").exists()


async def test_a_store_that_does_not_exist_is_named_and_not_created(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="there is no database at"):
        await Outbox(f"sqlite:///{tmp_path}/app.db").bus.emit("SESSION_STARTED", session_id="s1")
    assert not (tmp_path / "app.db").exists()


async def test_listeners_are_called_after_the_event_is_stored_and_cannot_fail_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    outbox, seen = RecordingOutbox(tmp_path / "app.db"), []

    async def broken(kind: BusEvent, fields: Any) -> None:
        raise RuntimeError("the listener is broken")

    async def listener(kind: BusEvent, fields: Any) -> None:
        seen.append((kind, dict(fields), len(outbox.published("session.*"))))

    outbox.bus.subscribe(broken)
    outbox.bus.subscribe(listener)
    with caplog.at_level(logging.ERROR, "holdfast.bus"):
        await outbox.bus.emit("session_started", session_id="s1", payload={"cwd": "/src"})
    assert seen == [(BusEvent.SESSION_STARTED, {"session_id": "s1", "payload": {"cwd": "/src"}}, 1)]
    assert "a bus listener failed on SESSION_STARTED; the event is stored" in caplog.text
    assert outbox.published()[0].payload == {"cwd": "/src"}
    outbox.bus.close()


async def test_beside_a_running_daemon_its_contracts_receive_the_events(tmp_path: Path) -> None:
    with Daemon(tmp_path / "home") as daemon:
        contract = {"id": "log-sessions", "type_criterion": {"pattern": "session.*"}, "target": {"handler": "log"}}
        status, answer = await asyncio.to_thread(daemon.request, "POST", "/hooks/contracts", contract)
        assert status == 201, answer
        outbox = Outbox(f"sqlite:///{daemon.home}/holdfast.db")
        appended = await outbox.bus.emit("SESSION_STARTED", session_id="s1")
        outbox.bus.close()

        def delivered(page: Any) -> bool:
            return bool(page["items"]) and page["items"][0]["contract_id"] == "log-sessions"

        await asyncio.to_thread(daemon.wait_for, f"/api/deliveries?event={appended.id}", delivered, TIMEOUT_S)


async def test_events_of_a_bus_can_be_found_by_their_session(outbox: Outbox, url: str) -> None:
    await outbox.bus.emit("ERROR", message="no session at all")
    await outbox.bus.emit("ERROR", session_id="s2", message="gone")
    store = open_store(url, driver="sqlite3", create=False)
    try:
        page = await store.events.find(EventFilter(stream="session:s2"), None, 10)
    finally:
        await store.close()
    assert [(event.type, event.payload) for event in page.items] == [("error.error", {"message": "gone"})]


def test_the_example_on_its_page_runs(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "applications" / "bus.md").read_text("utf-8")
    example = page.partition("```python\n")[2].partition("```")[0]
    env = {**os.environ, "HOLDFAST_HOME": str(tmp_path / "home")}
    subprocess.run([sys.executable, "-c", example], cwd=tmp_path, env=env, check=True, timeout=TIMEOUT_S)
    events = asyncio.run(stored(f"sqlite:///{tmp_path}/host.db"))
    assert [event.type for event in events] == [
        "session.started", "agent.activity.tool_use", "error.fatal", "session.closed",
    ]  # fmt: skip
