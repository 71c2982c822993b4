"""A real daemon and its spool: under a burst, and killed meanwhile."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from daemon import Daemon, run_cli
from hooks import claude, drop_hook, write_hook
from receiving import Receiver, silent

sys.path.insert(0, str(Path(__file__).parent))
from replay import StoreContents, check, check_ends, drain, read_contents, run, script

from holdfast.domain.event import Event
from holdfast.ingress.spool import notify_daemon


def contents_of(daemon: Daemon) -> StoreContents:
    drain(daemon)
    daemon.stop()
    return asyncio.run(read_contents(daemon.home))


def test_events_of_unlisted_types_are_counted_in_status(tmp_path: Path) -> None:
    with Daemon(tmp_path / "home", config="sessions: {events: [agent_stop]}\n") as daemon:
        write_hook(daemon.home / "spool", 1, "claude", claude("PreToolUse", tool_name="Bash"))
        write_hook(daemon.home / "spool", 2, "claude", claude("Stop"))
        daemon.wait_for("/api/sessions", lambda page: len(page["items"]) == 1)
        assert daemon.request("GET", "/api/status")[1]["hooks"]["unlisted"] == 1
        assert daemon.request("GET", "/api/sessions?state=odd")[0] == 422
        assert daemon.request("GET", "/api/sessions?after=odd")[0] == 422
        assert daemon.request("GET", "/api/sessions/nobody")[0] == 404
        assert daemon.cli("sessions", "show", "nobody").code == 3


def test_an_unknown_event_type_in_the_settings_is_named(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    (home / "holdfast.yml").write_text("sessions: {events: [agent_stopp]}\n")
    said = run_cli(home, "up", "--port", "0")
    assert said.code == 1
    assert "sessions.events has an unknown type 'agent_stopp'" in said.err


def test_events_of_one_agent_do_not_mark_those_of_another_as_late(tmp_path: Path) -> None:
    """Their receivers overtake each other all the time; each agent waits for its own."""
    with Daemon(tmp_path / "home") as daemon, ThreadPoolExecutor(8) as threads:
        receiver = Receiver(daemon.home)

        def live(session: str) -> None:
            for turn in range(4):
                for payload in (
                    claude("UserPromptSubmit", session, prompt=f"ask {turn}"),
                    claude("Stop", session, last_assistant_message=f"did {turn}"),
                ):
                    assert silent(receiver("--agent", "claude", stdin=json.dumps(payload).encode()))

        list(threads.map(live, [f"s{number}" for number in range(8)]))
        contents = contents_of(daemon)
        receiver.clean()
    assert len(contents.sessions) == 8
    for session, row in contents.sessions.items():
        assert (row["state"], row["last_prompt"], row["last_answer"]) == ("idle", "ask 3", "did 3")
        assert not [event for event in contents.streams[session] if "spool_late" in event.properties]


AGENT = """
import json, os, signal, subprocess, sys
words = json.loads(sys.argv[1])
for line in sys.argv[2:-1]:
    subprocess.run(words, input=line.encode(), check=True)
last = subprocess.Popen(words, stdin=subprocess.PIPE)
last.stdin.write(sys.argv[-1].encode()[:40])
last.stdin.flush()
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_an_agent_killed_in_the_middle_leaves_a_session_that_can_be_resumed_and_closed(tmp_path: Path) -> None:
    """It dies at work, with half a hook said. Nothing tells that it is over, so its session stays as it was last."""
    hooks = [
        claude("SessionStart", source="startup"),
        claude("UserPromptSubmit", prompt="Go"),
        claude("SubagentStart", agent_id="a1", agent_type="Explore"),
        claude("PreToolUse", tool_name="Bash"),
        claude("PostToolUse", tool_name="Bash"),
    ]
    with Daemon(tmp_path / "home") as daemon:
        receiver = Receiver(daemon.home)
        words = json.dumps([*receiver.command, "--agent", "claude"])
        done = subprocess.run([sys.executable, "-c", AGENT, words, *map(json.dumps, hooks)], env=receiver.env)
        assert done.returncode == -signal.SIGKILL
        daemon.wait_for("/api/events?type=error.error", lambda page: page["items"] != [])
        drain(daemon)
        left = daemon.cli("sessions", "show", "s1", "--json").json
        assert (left["state"], left["last_prompt"], left["facts"]["tool"]) == ("working", "Go", "Bash")
        assert left["facts"]["subagents"] == {"a1": "Explore"}

        def feed(payload: dict[str, Any]) -> dict[str, Any]:
            assert silent(receiver("--agent", "claude", stdin=json.dumps(payload).encode()))
            drain(daemon)
            shown: dict[str, Any] = daemon.request("GET", "/api/sessions/claude-s1")[1]
            return shown

        resumed = feed(claude("SessionStart", source="resume"))
        assert (resumed["state"], resumed["last_prompt"]) == ("initializing", "Go")
        assert not {"tool", "subagents"} & resumed["facts"].keys()
        assert daemon.cli("sessions", "close", "s1", "--json").json["state"] == "closed"
        assert feed(claude("Stop", last_assistant_message="late"))["state"] == "closed"
        assert feed(claude("UserPromptSubmit", prompt="Again"))["state"] == "working"
        contents = contents_of(daemon)
        receiver.clean()
    assert [type for type, _ in contents.lives("claude-s1")] == ["session.started", "session.closed", "session.started"]


@pytest.mark.slow
def test_a_burst_in_one_session_drops_no_critical_event_and_delays_no_other_session(tmp_path: Path) -> None:
    """5,000 tool events in one session, a turn after every 500, beside 20 sessions with one turn each."""
    with Daemon(tmp_path / "home") as daemon:
        spool = daemon.home / "spool"
        number = 0

        def hook(payload: dict[str, Any]) -> None:
            nonlocal number
            number += 1
            drop_hook(spool, number, "claude", payload)

        for turn in range(10):
            hook(claude("UserPromptSubmit", "noisy", prompt=f"turn {turn}"))
            for step in range(250):
                tool = "Bash" if step % 3 else "Read"
                hook(claude("PreToolUse", "noisy", tool_name=tool))
                hook(claude("PostToolUse", "noisy", tool_name=tool))
            hook(claude("Stop", "noisy", last_assistant_message=f"did {turn}"))
            for quiet in (2 * turn, 2 * turn + 1):
                hook(claude("UserPromptSubmit", f"quiet{quiet}", prompt="Go"))
                hook(claude("Stop", f"quiet{quiet}", last_assistant_message="Done."))
            notify_daemon(daemon.home / "holdfast.sock")
        contents = contents_of(daemon)
    said = [payload.get("prompt") or payload["last_answer"] for _, payload in contents.critical_events("claude-noisy")]
    assert said == [text for turn in range(10) for text in (f"turn {turn}", f"did {turn}")]
    noisy = [row for row in contents.deliveries if row.stream == "session:claude-noisy"]
    assert len(noisy) == 5020
    assert len(contents.raw("claude-noisy")) == 5020
    assert any(row.state == "dropped" for row in noisy)
    check_ends(contents)
    for quiet in range(20):
        assert [type for type, _ in contents.critical_events(f"claude-quiet{quiet}")] == [
            "agent.user_prompt_submit",
            "agent.agent_stop",
        ]
        assert contents.sessions[f"claude-quiet{quiet}"]["last_answer"] == "Done."
    assert not [row for row in contents.deliveries if row.state == "dropped" and row not in noisy]


@pytest.mark.slow
def test_kills_lose_nothing_keep_the_order_and_leave_the_same_sessions(tmp_path: Path) -> None:
    """The large one: python tests/hooks/replay.py --events 10000 --sessions 20 --kills 20."""
    report = run(events=2000, sessions=20, kills=4, seed=7, folder=tmp_path)
    assert report["sessions"] == 20
    assert report["kills_at_work"] >= 1


def test_the_check_of_a_replay_finds_lost_repeated_and_reordered_events() -> None:
    records = script(30, 2, seed=1)
    contents = StoreContents({}, {f"claude-s{number}": _stream(records, f"s{number}") for number in range(2)}, [])
    check(records, contents, contents)
    for harm in (lambda ids: ids[1:], lambda ids: ids + ids[-1:], lambda ids: [ids[1], ids[0], *ids[2:]]):
        harmed = StoreContents({}, {name: harm(events) for name, events in contents.streams.items()}, [])
        with pytest.raises(AssertionError, match="lost, doubled or out of order"):
            check(records, contents, harmed)


def _stream(records: list[Any], session: str) -> list[Event]:
    return [
        Event(n, f"evt_{n:032x}", f"session:claude-{session}", n, "hook", "hook.raw", "", 0, "{}", "{}")
        for n, _, payload in records
        if payload["session_id"] == session
    ]
