"""The rows of agent sessions can be rebuilt from their events, whatever happened to the table."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from daemon import Daemon
from hooks import claude, write_hook
from postgres import end_schema, fresh_schema, newest, start
from vandal import Vandal

sys.path.insert(0, str(Path(__file__).parent))
from replay import drain, script

pytest_plugins = ("postgres",)

COLUMNS = "id, agent, native_id, state, cwd, pane, transcript, title, last_prompt, last_answer, name, host, facts"


class Sessions:
    """A daemon with sessions, and a way to change their table behind its back."""

    def __init__(self, daemon: Daemon, vandal: Vandal) -> None:
        self.daemon, self._vandal = daemon, vandal
        self._number = 0

    def hook(self, payload: dict[str, Any], agent: str = "claude") -> None:
        self._number += 1
        write_hook(self.daemon.home / "spool", self._number, agent, payload)

    def spoil(self, text: str) -> None:
        asyncio.run(self._vandal.run(text))

    def rows(self) -> dict[str, Any]:
        drain(self.daemon)
        rows = asyncio.run(self._vandal.run(f"SELECT {COLUMNS} FROM {{t}}sessions ORDER BY id"))
        return {row[0]: (*row[1:-1], json.loads(row[-1])) for row in rows}

    def chats(self) -> dict[str, str]:
        rows = asyncio.run(self._vandal.run("SELECT origin, channel, session FROM {t}bindings"))
        return {f"{origin}:{channel}": session for origin, channel, session in rows}

    def rebuild(self, *arguments: str) -> Any:
        said = self.daemon.cli("sessions", "rebuild", *arguments, "--json")
        assert said.code == 0, said
        drain(self.daemon)
        return said.json

    def reports(self, id: str) -> list[Any]:
        """What the rebuilds of a session found, oldest first."""
        page = self.daemon.request("GET", f"/api/events?type=session.rebuilt&stream=session:{id}")[1]
        return [item["payload"] for item in reversed(page["items"])]


@pytest.fixture(params=["sqlite", "postgres"])
def sessions(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Sessions]:
    home = tmp_path / "home"
    if request.param == "sqlite":
        with Daemon(home) as daemon:
            yield Sessions(daemon, Vandal(sqlite=home / "holdfast.db"))
        return
    server, schema = start(newest()), fresh_schema()
    with Daemon(home, env={"HOLDFAST_STORE": server.url(schema)}) as daemon:
        yield Sessions(daemon, Vandal(postgres=(server.address, schema)))
    asyncio.run(end_schema(server, schema))


def test_damaged_rows_are_as_they_were(sessions: Sessions) -> None:
    for number, agent, payload in script(events=300, sessions=5, seed=7):
        write_hook(sessions.daemon.home / "spool", number, agent, payload)
    before = sessions.rows()
    assert len(before) == 5
    sessions.spoil("DELETE FROM {t}sessions WHERE id = 'claude-s0'")
    sessions.spoil("UPDATE {t}sessions SET state = 'closed', title = 'x', last_answer = NULL WHERE id = 'claude-s1'")
    sessions.spoil("UPDATE {t}sessions SET facts = '{}', pane = '%9', cwd = '/etc' WHERE id = 'claude-s2'")
    sessions.spoil("UPDATE {t}sessions SET native_id = 'other', agent = 'codex' WHERE id = 'claude-s3'")
    assert sessions.rebuild("--all") == {"requested": 5, "rebuilt": 5, "waiting": 0}
    after = sessions.rows()
    pane = 4
    assert after.pop("claude-s2")[:pane] == before.pop("claude-s2")[:pane]  # that it has no pane, no event says
    assert after == before
    (report,) = sessions.reports("claude-s4")
    assert (report["changed"], report["complete"], report["events"] > 20) == ([], True, True)
    assert set(sessions.reports("claude-s1")[0]["changed"]) == {"state", "title", "last_answer"}


def test_a_rebuild_twice_is_the_same_and_changes_nothing_more(sessions: Sessions) -> None:
    sessions.hook(claude("UserPromptSubmit", prompt="please look"))
    sessions.hook(claude("Stop", last_assistant_message="done"))
    before = sessions.rows()
    sessions.spoil("DELETE FROM {t}sessions")
    for _ in range(2):
        sessions.rebuild("claude-s1")
        assert sessions.rows() == before
    assert [bool(report["changed"]) for report in sessions.reports("claude-s1")] == [True, False]
    assert sessions.daemon.cli("receipts", "verify", "--rows").code == 0


def test_names_and_chats_and_what_was_taken_over_come_back(sessions: Sessions) -> None:
    daemon = sessions.daemon
    sessions.hook(claude("SessionStart", "a", source="startup", transcript_path="/t/a.jsonl"))
    sessions.hook(claude("SessionStart", "b", source="startup"))
    sessions.rows()
    for words in (
        ("name", "claude-a", "backend"),
        ("bind", "claude-a", "--origin", "chat", "--channel", "1"),
        ("bind", "claude-a", "--origin", "chat", "--channel", "2"),
        ("bind", "claude-b", "--origin", "chat", "--channel", "2"),
        ("bind", "claude-b", "--origin", "chat", "--channel", "3"),
        ("bind", "claude-b", "--origin", "chat", "--channel", "3", "--unbind"),
    ):
        assert daemon.cli("sessions", *words).code == 0
    sessions.hook(claude("SessionStart", "c", source="resume", transcript_path="/t/a.jsonl", cwd="/src/a"))
    before, chats = sessions.rows(), sessions.chats()
    assert chats == {"chat:1": "claude-c", "chat:2": "claude-b"}
    assert before["claude-c"][-3] == "backend"
    sessions.spoil("DELETE FROM {t}sessions")
    sessions.spoil("DELETE FROM {t}bindings")
    sessions.rebuild("claude-b")
    sessions.rebuild("--all")
    assert sessions.rows() == before
    assert sessions.chats() == chats


def test_messages_that_were_sent_come_back(sessions: Sessions) -> None:
    """A message that the agent took is on its row: which it was, and that it is being answered."""
    sessions.hook(claude("SessionStart", source="startup"))
    sessions.rows()
    status, answer = sessions.daemon.request(
        "POST", "/api/messages", {"session": "claude-s1", "content": "please rebase", "origin": "chat"}
    )
    assert status == 202
    for type in ("message.sent", "message.accepted"):
        event = {
            "type": type, "source": "message", "stream": "session:claude-s1", "to": "handler:sessions",
            "payload": {"message_id": answer["id"]},
        }  # fmt: skip
        assert sessions.daemon.request("POST", "/api/events", event)[0] == 201
    sessions.hook(claude("UserPromptSubmit", prompt="please rebase"))
    sessions.daemon.wait_for("/api/sessions/claude-s1", lambda answer: answer["last_prompt"] == "please rebase")
    assert sessions.daemon.request("POST", "/api/sessions/claude-s1/close")[0] == 200
    before = sessions.rows()
    facts = before["claude-s1"][-1]
    assert (facts["last_message"], facts["answering"]["id"]) == ("please rebase", answer["id"])
    sessions.spoil("DELETE FROM {t}sessions")
    sessions.rebuild("--all")
    assert sessions.rows() == before


def test_hooks_that_arrive_meanwhile_are_applied_after_it(sessions: Sessions) -> None:
    """The lane is paused, so that hooks and the request of the rebuild wait in it together."""
    daemon = sessions.daemon
    sessions.hook(claude("UserPromptSubmit", prompt="one"))
    sessions.rows()
    lane = "handler:sessions session:claude-s1"
    assert daemon.request("POST", "/api/pause", {"scope": "lane", "name": lane})[0] == 200
    sessions.hook(claude("UserPromptSubmit", prompt="two"))
    daemon.wait_for("/api/status", lambda answer: answer["pending"] == 1)
    assert daemon.cli("sessions", "rebuild", "claude-s1", "--json").json["waiting"] == 1
    sessions.hook(claude("Stop", last_assistant_message="three"))
    daemon.wait_for("/api/status", lambda answer: answer["pending"] == 3)
    sessions.spoil("UPDATE {t}sessions SET state = 'failed', title = 'spoiled'")
    assert daemon.request("POST", "/api/resume", {"scope": "lane", "name": lane})[0] == 200
    (row,) = sessions.rows().values()
    assert (row[2], row[6], row[7], row[8]) == ("idle", "one", "two", "three")
    assert row[-1]["turns"] == 2


def test_a_session_without_its_first_events_keeps_its_row(sessions: Sessions) -> None:
    sessions.hook(claude("UserPromptSubmit", prompt="one"))
    sessions.hook(claude("UserPromptSubmit", prompt="two"))
    before = sessions.rows()
    sessions.spoil("DELETE FROM {t}deliveries WHERE event = (SELECT min(n) FROM {t}events)")
    sessions.spoil("DELETE FROM {t}events WHERE n = (SELECT min(n) FROM {t}events)")
    sessions.rebuild("--all")
    assert sessions.rows() == before
    assert sessions.reports("claude-s1")[0]["complete"] is False
    sessions.spoil("DELETE FROM {t}sessions")
    sessions.rebuild("--all")
    (row,) = sessions.rows().values()
    assert (row[2], row[7], row[-1]["turns"]) == ("working", "two", 1)


def test_what_a_rebuild_is_asked_for(sessions: Sessions) -> None:
    daemon = sessions.daemon
    assert sessions.rebuild("--all") == {"requested": 0, "rebuilt": 0, "waiting": 0}
    assert daemon.cli("sessions", "rebuild").code == 2
    assert daemon.cli("sessions", "rebuild", "--all", "claude-s1").code == 2
    said = daemon.cli("sessions", "rebuild", "claude-nobody")
    assert (said.code, "no events of a session 'claude-nobody'" in said.err) == (3, True)
    for body in ({}, {"ids": []}, {"ids": ["a"], "all": True}, {"all": False}, {"ids": ["a"] * 101}, {"ids": [1]}):
        assert daemon.request("POST", "/api/sessions/rebuild", body)[0] in (400, 404, 422), body


def test_a_token_that_may_append_cannot_forge_the_events_of_a_session(sessions: Sessions) -> None:
    """A rebuild trusts events of the sources agent and system on the stream of a session."""
    daemon = sessions.daemon
    sessions.hook(claude("UserPromptSubmit", prompt="one"))
    before = sessions.rows()
    token = daemon.cli("token", "create", "appender", "--scope", "append", "--json").json["token"]
    for source, type in (("system", "session.started"), ("agent", "agent.agent_stop"), ("hook", "hook.agent_stop")):
        event = {
            "type": type, "source": source, "stream": "session:claude-s1",
            "payload": {"continues": "x", "chats": [{"origin": "chat", "channel": "666"}], "title": "forged"},
        }  # fmt: skip
        assert daemon.request("POST", "/api/events", event, token=token)[0] == 403, source
    for source in ("app", "mine"):
        event = {"type": "agent.agent_stop", "source": source, "stream": "session:claude-s1", "payload": {"title": "f"}}
        assert daemon.request("POST", "/api/events", event, token=token)[0] == 201
    sessions.rebuild("--all")
    assert (sessions.rows(), sessions.chats()) == (before, {})
