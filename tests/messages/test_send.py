"""Messages are accepted at once, by REST and by the command line, and wait for their session."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from daemon import Daemon, run_cli
from hooks import claude, write_hook

CONFIG = "sessions: {transcripts: 'off'}\n"


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with Daemon(tmp_path_factory.mktemp("messages") / "home", config=CONFIG) as daemon:
        begin(daemon, "s1", 1)
        yield daemon


def begin(daemon: Daemon, native_id: str, number: int, **more: Any) -> str:
    """Start a session by the hook of its agent, and return its id."""
    write_hook(daemon.home / "spool", number, "claude", claude("SessionStart", native_id, source="startup", **more))
    daemon.wait_for("/api/sessions?limit=1000", lambda page: native_id in [one["native_id"] for one in page["items"]])
    return f"claude-{native_id}"


def message(daemon: Daemon, id: str) -> dict[str, Any]:
    status, shown = daemon.request("GET", f"/api/messages/{id}")
    assert status == 200, shown
    answer: dict[str, Any] = shown
    return answer


def send(daemon: Daemon, **body: Any) -> tuple[int, Any]:
    return daemon.request("POST", "/api/messages", {"session": "claude-s1", "content": "hello", **body})


def test_a_message_is_accepted_at_once_and_queued_for_its_session(daemon: Daemon) -> None:
    status, answer = send(daemon, content="please rebase", origin="telegram", source_message_id="1", actor_id="7")
    assert status == 202
    assert answer == {"id": answer["id"], "session": "claude-s1", "status": "queued", "duplicate": False}
    shown = message(daemon, answer["id"])
    assert (shown["id"], shown["session"], shown["attempts"]) == (answer["id"], "claude-s1", 0)
    assert (shown["content"], shown["origin"], shown["message_type"]) == ("please rebase", "telegram", "text")
    event = daemon.wait_for(f"/api/events/{answer['id']}", lambda event: event["deliveries"])
    assert (event["type"], event["source"], event["stream"]) == ("message.queued", "message", "session:claude-s1")
    assert event["to"] == "session:claude-s1"
    assert event["payload"]["sent_by"] == "api:admin"
    assert [one["address"] for one in event["deliveries"]] == ["session:claude-s1"]


def test_the_same_message_of_a_channel_is_accepted_once(daemon: Daemon) -> None:
    source = {"origin": "slack", "source_channel_id": "C1", "source_message_id": "17.1"}
    first = send(daemon, **source)[1]
    status, again = send(daemon, **source)
    assert (status, again["id"], again["duplicate"]) == (202, first["id"], True)
    assert send(daemon, **source, content="another text")[0] == 409
    elsewhere = send(daemon, **{**source, "source_channel_id": "C2"})[1]
    assert elsewhere["id"] != first["id"]
    assert not elsewhere["duplicate"]


def test_a_session_that_does_not_exist_is_a_404_and_nothing_is_stored(daemon: Daemon) -> None:
    before = daemon.request("GET", "/api/status")[1]["events"]
    status, problem = send(daemon, session="nobody")
    assert (status, problem["error"]) == (404, "NotFound")
    assert "there is no session 'nobody'" in problem["detail"]
    assert daemon.request("GET", "/api/status")[1]["events"] == before
    assert daemon.request("GET", "/api/messages/evt_none")[0] == 404


def test_a_closed_session_is_a_409(daemon: Daemon) -> None:
    begin(daemon, "closing", 2)
    daemon.request("POST", "/api/sessions/claude-closing/close")
    status, problem = send(daemon, session="claude-closing")
    assert (status, problem["title"]) == (409, "Conflict")
    assert "is closed" in problem["detail"]


@pytest.mark.parametrize("content", ["/clear", "!rm -rf ~", "exit", "  /model"])
def test_a_command_of_the_agent_needs_to_be_meant_as_one(daemon: Daemon, content: str) -> None:
    status, problem = send(daemon, content=content)
    assert (status, problem["title"]) == (422, "Not acceptable input")
    assert "command: true" in problem["detail"]
    assert send(daemon, content=content, command=True)[0] == 202


@pytest.mark.parametrize(
    ("body", "status", "why"),
    [
        ({"content": ""}, 422, "empty"),
        ({"content": "\x1b[31m\x07"}, 422, "no visible character"),
        ({"content": "x" * 70_000}, 413, "64 KiB"),
        ({"content": 5}, 422, "text"),
        ({"message_type": "video"}, 422, "text, voice, file"),
        ({"session": None}, 422, "session is missing"),
        ({"contents": "typo"}, 422, "did you mean content"),
        ({"actor_id": 5}, 422, "actor_id"),
        ({"command": "yes"}, 422, "command must be true or false"),
    ],
)
def test_a_faulty_message_names_the_fault(daemon: Daemon, body: dict[str, Any], status: int, why: str) -> None:
    answered, problem = send(daemon, **body)
    assert (answered, why in problem["detail"]) == (status, True), problem


def test_the_text_is_cleaned_before_it_is_stored(daemon: Daemon) -> None:
    answer = send(daemon, content="a\r\n\tb\x1b[201~; rm -rf ~\x07")[1]
    assert message(daemon, answer["id"])["content"] == "a\n    b; rm -rf ~"


def test_only_a_token_of_scope_message_may_write_to_a_session(daemon: Daemon) -> None:
    operate = daemon.cli("token", "create", "bot", "--scope", "operate").out.strip()
    may = daemon.cli("token", "create", "chat", "--scope", "message,append").out.strip()
    body = {"session": "claude-s1", "content": "hello"}
    assert daemon.request("POST", "/api/messages", body, token=operate)[0] == 403
    assert daemon.request("POST", "/api/messages", body, token=may)[0] == 202
    for event in (
        {"type": "x", "to": "session:claude-s1"},
        {"type": "github.issue_comment.created", "source": "github", "properties": {"actor_id": "1"}},
        {"type": "agent.agent_stop", "source": "agent"},
        {"type": "hook.user_prompt_submit", "source": "hook"},
        {"type": "x", "to": "handler:messages"},
    ):
        status, problem = daemon.request("POST", "/api/events", event, token=operate)
        assert (status, "scope message" in problem["detail"]) == (403, True), event
        assert daemon.request("POST", "/api/events", event, token=may)[0] == 201
    assert daemon.request("POST", "/api/events", {"type": "x"}, token=operate)[0] == 201
    stored = daemon.request("POST", "/api/messages", body, token=may)[1]["id"]
    assert daemon.request("GET", f"/api/events/{stored}")[1]["payload"]["sent_by"].startswith("api:tok_")


def test_no_more_than_a_thousand_messages_wait_for_a_session(daemon: Daemon) -> None:
    begin(daemon, "full", 3)
    session = "session:claude-full"
    with sqlite3.connect(daemon.home / "holdfast.db", timeout=60) as connection:
        connection.executemany(
            'INSERT INTO holdfast_publish (type, source, stream, "to", payload) VALUES (?, ?, ?, ?, ?)',
            [("message.queued", "message", session, session, json.dumps({"content": str(n)})) for n in range(1000)],
        )
    daemon.wait_for("/api/status", lambda status: status["unrouted"] == 0)
    status, problem = send(daemon, session="claude-full")
    assert (status, problem["error"]) == (429, "TooMany")
    assert daemon.cli("send", "claude-full", "one more").code == 1


def test_the_command_line_sends_and_says_what_happened(daemon: Daemon) -> None:
    said = daemon.cli("send", "s1", "please rebase", "--origin", "telegram", "--message-id", "cli-1", "--channel", "42")
    assert said.code == 0, said.err
    assert said.out.rstrip().endswith(" queued for claude-s1")
    again = daemon.cli(
        "send", "s1", "please rebase", "--origin", "telegram", "--message-id", "cli-1", "--channel", "42", "--json"
    )
    assert again.json == {"id": said.out.split()[0], "session": "claude-s1", "status": "queued", "duplicate": True}
    assert daemon.cli("send", "nobody", "hi").code == 3
    assert daemon.cli("send", "s1", "/clear").code == 2
    assert daemon.cli("send", "s1", "/clear", "--command").code == 0
    from_stdin = daemon.cli("send", "s1", "-", "--json", input="two\nlines\n").json
    assert message(daemon, from_stdin["id"])["content"] == "two\nlines"


def test_a_wait_that_ends_early_leaves_the_message_queued(daemon: Daemon) -> None:
    said = daemon.cli("send", "s1", "wait for me", "--wait", "--timeout", "0.3")
    assert (said.code, "is still queued" in said.err) == (1, True)


def test_without_a_daemon_the_message_goes_to_the_spool_and_is_queued_once_one_runs(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    said = run_cli(home, "send", "s1", "are you there?", "--json")
    assert (said.code, said.json["spooled"]) == (0, True), said.err
    with Daemon(home, config=CONFIG) as daemon:
        id = said.json["id"]
        waiting = message(daemon, id)
        assert (waiting["status"], waiting["session"]) == ("queued", None)
        begin(daemon, "s1", 9)
        found = daemon.wait_for(f"/api/messages/{id}", lambda shown: shown["session"] == "claude-s1")
        assert (found["status"], found["content"]) == ("queued", "are you there?")
        events = daemon.request("GET", "/api/streams/session:claude-s1/events?limit=100")[1]["items"]
        (queued,) = [event for event in events if event["type"] == "message.queued"]
        assert queued["payload"]["source_message_id"] == id


def test_a_cancelled_message_says_so(daemon: Daemon) -> None:
    begin(daemon, "cancel", 4)
    id = send(daemon, session="claude-cancel")[1]["id"]
    event = daemon.wait_for(f"/api/events/{id}", lambda event: event["deliveries"])
    assert daemon.request("POST", f"/api/deliveries/{event['deliveries'][0]['id']}/cancel")[0] == 200
    assert (message(daemon, id)["status"], message(daemon, id)["reason"]) == ("cancelled", "cancelled")


def test_the_view_of_the_source_system_shows_messages(daemon: Daemon, tmp_path: Path) -> None:
    begin(daemon, "view", 5)
    id = send(daemon, session="claude-view", content="shown", origin="discord", source_message_id="m1",
              source_channel_id="c1", actor_id="a1", actor_name="Ada", payload={"k": 1})[1]["id"]  # fmt: skip
    daemon.wait_for(f"/api/events/{id}", lambda event: event["deliveries"])
    with sqlite3.connect(daemon.home / "holdfast.db") as connection:
        connection.row_factory = sqlite3.Row
        (row,) = connection.execute("SELECT * FROM inbound_queue WHERE session_id = 'claude-view'").fetchall()
    shown = {name: row[name] for name in row.keys()}  # noqa: SIM118 - a row iterates over values
    assert {name: shown[name] for name in ("origin", "message_type", "content")} == {
        "origin": "discord", "message_type": "text", "content": "shown",
    }  # fmt: skip
    assert shown["status"] in ("pending", "processing", "failed")  # the session has no terminal
    assert (shown["actor_id"], shown["actor_name"], json.loads(shown["payload_json"])) == ("a1", "Ada", {"k": 1})
    assert (shown["source_message_id"], shown["source_channel_id"]) == ("m1", "c1")


def test_a_contract_for_a_session_is_added_on_the_command_line(daemon: Daemon) -> None:
    options = ("--type", "github.issue_comment.created", "--session", "claude-s1", "--id", "comments")
    refused = daemon.cli("contracts", "add", *options)
    assert (refused.code, "needs senders" in refused.err) == (2, True)
    added = daemon.cli("contracts", "add", *options, "--sender", "github=1", "--sender", "github=mona", "--json")
    assert added.code == 0, added.err
    assert added.json["target"]["session"] == "claude-s1"
    assert added.json["senders"] == {"github": {"actors": ["1", "mona"]}}
    comment = {"type": "github.issue_comment.created", "source": "github", "payload": {"text": "hi"}}
    for actor, ends in (("1", "delivered"), ("2", "dropped")):
        event = {**comment, "properties": {"actor_id": actor, "text": "please look", "message_id": actor}}
        id = daemon.request("POST", "/api/events", event)[1]["id"]
        shown = daemon.wait_for(
            f"/api/events/{id}", lambda event: event["deliveries"] and event["deliveries"][0]["state"] != "pending"
        )
        assert shown["deliveries"][0]["state"] == ends
    assert daemon.cli("contracts", "remove", "comments").code == 0
