"""Every payload of every CLI becomes the event, the properties and the session that the table says.

Once in memory; and once through receivers in processes of their own into a real daemon that is up, or off at first.
"""

from __future__ import annotations

import asyncio
import json
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from daemon import Daemon
from hooks import FILES, applied, fixture
from receiving import PYTHON, Receiver, silent

sys.path.insert(0, str(Path(__file__).parent))
from golden import GOLDEN, SHOWN, line
from replay import StoreContents, check_ends, drain, read_contents

from holdfast.agents.sessions.agent_hook import read_agent_hook
from holdfast.agents.sessions.lifecycle import advance
from holdfast.domain.event import Event

TABLE = json.loads(GOLDEN.read_text(encoding="utf-8"))
NUMBERS = {name: number for number, name in enumerate(FILES, 1)}
AT = TABLE["claude/SessionStart.json"]["session"]["facts"]["seen_at"]
TMUX = "/tmp/tmux-1000/default"
REPEATED = "codex/notify.agent-turn-complete.json"  # its turn ended with the Stop before it


@pytest.mark.parametrize("name", FILES)
def test_a_payload_becomes_the_event_in_the_table(name: str) -> None:
    assert line(name) == TABLE[name], "if this is meant: python tests/hooks/golden.py, and read the diff"


def test_the_table_has_every_payload_and_no_other() -> None:
    assert list(TABLE) == FILES
    assert len(FILES) == 82


def test_the_table_is_in_its_written_form() -> None:
    script = "import golden; print(golden.text(), end='')"
    done = subprocess.run([sys.executable, "-c", script], cwd=GOLDEN.parent, capture_output=True, check=True)
    assert done.stdout.decode() == GOLDEN.read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("form", ["python", "perl"])
@pytest.mark.parametrize("up", [True, False], ids=["daemon up", "daemon off, then started"])
def test_every_payload_through_receiver_and_daemon_becomes_the_event_in_the_table(
    tmp_path: Path, request: pytest.FixtureRequest, form: str, up: bool
) -> None:
    """Each payload as the first of a session of its own; and all as they are, one after another."""
    program = PYTHON if form == "python" else request.getfixturevalue("fast")
    daemon = Daemon(tmp_path / "home")
    receiver = Receiver(daemon.home, program)
    if up:
        daemon.start()
    try:
        for name, number in NUMBERS.items():
            send(receiver, name, own(name), pane=f"%{100 + number}")
        for name in FILES:
            send(receiver, name, fixture(name)[2], pane="%3")
        if not up:
            daemon.start()
        drain(daemon)
        status = daemon.request("GET", "/api/status")[1]
        daemon.stop()
        contents = asyncio.run(read_contents(daemon.home))
    finally:
        daemon.kill9()
        receiver.clean()
    assert status["hooks"] == {"unlisted": 0, "repeated": 1}
    for name in FILES:
        assert alone(contents, name) == TABLE[name], name
    check_sequence(contents)
    check_ends(contents)


def own_id(name: str) -> str:
    return f"{NUMBERS[name]:08d}-0000-4000-8000-000000000000"


def own(name: str) -> bytes:
    """The payload as a session of its own would send it."""
    native = TABLE[name]["properties"]["native_id"].encode()
    body = fixture(name)[2]
    assert native in body
    return body.replace(native, own_id(name).encode())


def send(receiver: Receiver, name: str, body: bytes, pane: str) -> None:
    """As its CLI does: Copilot's payloads do not name their event, so an argument does; `notify` is an argument too."""
    agent, event, _ = fixture(name)
    env = {**receiver.env, "TMUX": f"{TMUX},4242,7", "TMUX_PANE": pane}
    words = ["--agent", agent, *([str(event)] if agent == "copilot" else [])]
    if event is None:
        assert silent(receiver(*words, body.decode(), env=env))
    else:
        assert silent(receiver(*words, stdin=body, env=env))


def alone(contents: StoreContents, name: str) -> dict[str, Any]:
    """What the store holds of a payload in a session of its own, in the words of the table."""
    id = f"{name.partition('/')[0]}-{own_id(name)}"
    raw, *others = [event for event in contents.streams[id] if event.source == "hook"]
    assert others == []
    (delivery,) = [row for row in contents.deliveries if row.event_id == raw.id]
    assert (delivery.state, delivery.address) == ("delivered", "handler:sessions")
    payload = dict(raw.payload)
    assert payload.pop("raw") == json.loads(own(name))
    assert payload.pop("host") == platform.node()
    found = {
        "type": raw.type,
        "source": raw.source,
        "stream": raw.stream,
        "to": raw.to,
        "dedup_key": TABLE[name]["dedup_key"],  # what it is for shows in what is repeated
        "properties": dict(raw.properties),
        "payload": payload,
        "session": contents.sessions[id],
        "events": [event.type for event in contents.streams[id] if event.source != "hook"],
    }
    text = json.dumps(found).replace(own_id(name), TABLE[name]["properties"]["native_id"])
    text = text.replace(json.dumps(f"%{100 + NUMBERS[name]}"), '"%3"').replace(raw.timestamp, AT)
    table: dict[str, Any] = json.loads(text)
    return table


def check_sequence(contents: StoreContents) -> None:
    """All there, in order, once; and each session is what its hooks make of it one by one."""
    for agent in {name.partition("/")[0] for name in FILES}:
        names = [name for name in FILES if name.startswith(f"{agent}/") and name != REPEATED]
        id = TABLE[names[0]]["properties"]["session_id"]
        events = [event for event in contents.streams[id] if event.source == "hook"]
        assert [event.payload["raw"] for event in events] == [json.loads(fixture(n)[2]) for n in names]
        assert [event.type for event in events] == [TABLE[name]["type"] for name in names]
        assert contents.sessions[id] == folded(events)


def folded(events: list[Event]) -> dict[str, Any]:
    session = None
    for event in events:
        session = applied(session, advance(session, read_agent_hook(event))[0])
    assert session is not None
    return {**{name: getattr(session, name) for name in SHOWN}, "facts": session.facts}
