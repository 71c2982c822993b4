"""Agent hooks as the receiver writes them to the spool, and sample payloads of every CLI."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from holdfast.agents.hooks.decoder import decode_hook
from holdfast.agents.sessions.agent_hook import read_agent_hook
from holdfast.agents.sessions.lifecycle import advance
from holdfast.domain.event import Event, NewEvent, iso_time
from holdfast.domain.session import Session
from holdfast.ingress.spool import write_record
from holdfast.ports import SystemClock, boot_ns

FIXTURES = Path(__file__).parents[1] / "fixtures" / "agent-hooks"
FILES = sorted(str(path.relative_to(FIXTURES)) for path in FIXTURES.rglob("*.json"))
AT_MS = 1_794_780_952_318


def header(number: int, agent: str, event: str | None = None, **more: Any) -> dict[str, Any]:
    return {
        "v": 1, "kind": "hook", "id": f"evt_{number:032x}", "agent": agent, "event": event,
        "received_at": AT_MS + number, "cwd": "/home/user", "pane": None, "tmux": None, "pid": 100, "ppid": 99,
        "truncated": None, "via": "stdin", **more,
    }  # fmt: skip


def write_hook(
    spool: Path, number: int, agent: str, payload: Mapping[str, Any] | bytes, event: str | None = None, **more: Any
) -> Path:
    """A record as the receiver writes it."""
    body = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    return write_record(spool, header(number, agent, event, **more), body)


def drop_hook(
    spool: Path, number: int, agent: str, payload: Mapping[str, Any] | bytes, event: str | None = None
) -> None:
    """Like `write_hook` without fsync, for tests that need thousands of records."""
    body = json.dumps(payload).encode()
    boot = SystemClock().boot_id[:16].lower()
    name = f"{boot}-{boot_ns():020d}-1-{number % (1 << 32):08x}.evt"
    spool.mkdir(mode=0o700, parents=True, exist_ok=True)
    unfinished = spool / f".{name}"
    unfinished.write_bytes(json.dumps(header(number, agent)).encode() + b"\n" + body)
    unfinished.rename(spool / name)


def fixture(name: str) -> tuple[str, str | None, bytes]:
    """The agent, the event name passed to the receiver (Copilot's payloads do not contain it), and the payload."""
    agent, _, file = name.partition("/")
    event = file.partition(".")[0]
    return agent, None if event == "notify" else event, (FIXTURES / name).read_bytes()


def claude(native_event: str, session: str = "s1", **fields: Any) -> dict[str, Any]:
    return {
        "session_id": session, "transcript_path": f"/t/{session}.jsonl", "cwd": f"/src/{session}",
        "hook_event_name": native_event, **fields,
    }  # fmt: skip


def stored(event: NewEvent, seq: int = 1) -> Event:
    """The event as a store returns it."""
    assert event.id is not None
    return Event(
        seq, event.id, event.stream, seq, event.source, event.type, event.timestamp or iso_time(AT_MS), AT_MS,
        event.properties.decode(), event.payload.decode(), event.to,
    )  # fmt: skip


class Life:
    """A session in memory: apply hooks, then inspect its state and the events it emitted."""

    def __init__(self) -> None:
        self.session: Session | None = None
        self.events: list[NewEvent] = []
        self._number = 0

    def feed(self, payload: Mapping[str, Any], agent: str = "claude", late: bool = False, **more: Any) -> Session:
        self._number += 1
        body = json.dumps(payload).encode()
        raw = decode_hook(header(self._number, agent, more.pop("event", None), **more), body, late)
        assert raw is not None
        change, events = advance(self.session, read_agent_hook(stored(raw)))
        self.events = events
        self.session = applied(self.session, change)
        return self.session

    @property
    def types(self) -> list[str]:
        return [event.type for event in self.events]


def applied(session: Session | None, change: Any) -> Session:
    """The session after a change, as a store applies it."""
    before = session or Session(change.id, change.agent, change.native_id)
    names = ("state", "cwd", "pane", "transcript", "title", "last_prompt", "last_answer")
    values = {name: getattr(change, name) for name in names if getattr(change, name) is not None}
    facts = _patched(dict(before.facts), change.facts)
    return Session(
        **{name: values.get(name, getattr(before, name)) for name in ("id", "agent", "native_id", *names)}, facts=facts
    )


def _patched(facts: dict[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    for name, value in patch.items():
        if value is None:
            facts.pop(name, None)
        elif isinstance(value, Mapping):
            known = facts.get(name)
            facts[name] = _patched(dict(known) if isinstance(known, Mapping) else {}, value)
        else:
            facts[name] = value
    return facts
