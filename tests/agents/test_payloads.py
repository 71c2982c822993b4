"""What the agents' own programs were seen to send beyond their documents: from the receiver to the session."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from daemon import Daemon
from receiving import Receiver, silent

PAYLOADS = Path(__file__).with_name("payloads")
SESSION = "5c0d2b7e-1f34-4a86-9d20-7be1c4a95f03"


class AgentDaemon:
    def __init__(self, daemon: Daemon) -> None:
        self.daemon, self.sent = daemon, 0
        self.receive = Receiver(daemon.home)

    def send(self, agent: str, name: str) -> dict[str, Any]:
        """Through the real receiver; the event it became."""
        raw = (PAYLOADS / agent / f"{name}.json").read_bytes()
        words = [raw.decode()] if agent == "codex" else [name.partition("-")[0]]
        assert silent(self.receive("--agent", agent, *words, stdin=b"" if agent == "codex" else raw))
        self.sent += 1
        page = self.daemon.wait_for("/api/events?source=hook", lambda page: len(page["items"]) == self.sent)
        self.daemon.wait_for("/api/status", lambda status: (status["unrouted"], status["pending"]) == (0, 0))
        return dict(page["items"][0])

    def sessions(self) -> dict[str, dict[str, Any]]:
        return {item["id"]: item for item in self.daemon.request("GET", "/api/sessions")[1]["items"]}

    def session(self, id: str) -> dict[str, Any]:
        return dict(self.daemon.request("GET", f"/api/sessions/{id}")[1])


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[AgentDaemon]:
    with Daemon(tmp_path / "home") as running:
        yield AgentDaemon(running)


def test_a_thread_in_which_codex_asks_for_a_title_is_no_session(daemon: AgentDaemon) -> None:
    event = daemon.send("codex", "notify-titling")
    assert (event["type"], event["properties"]["injected"]) == ("hook.raw", True)
    assert daemon.sessions() == {}


def test_qwens_empty_prompt_after_a_tool_is_no_turn(daemon: AgentDaemon) -> None:
    daemon.send("qwen", "Notification-signed-in")
    assert daemon.sessions()[f"qwen-{SESSION}"]["state"] == "initializing"
    assert daemon.send("qwen", "UserPromptSubmit-after-tool")["type"] == "hook.raw"
    session = daemon.session(f"qwen-{SESSION}")
    assert (session["state"], session["last_prompt"], session["facts"].get("turns")) == ("initializing", None, None)


def test_a_notification_of_copilot_makes_its_session_wait(daemon: AgentDaemon) -> None:
    event = daemon.send("copilot", "notification")
    assert (event["type"], event["properties"]["native_event"]) == ("hook.notification", "Notification")
    session = daemon.session(f"copilot-{SESSION}")
    assert (session["state"], session["facts"]["waiting_for"]) == ("waiting", "permission_prompt")
    daemon.send("copilot", "agentStop")
    session = daemon.session(f"copilot-{SESSION}")
    assert (session["state"], session["transcript"]) == (
        "idle", f"/home/user/.copilot/session-state/{SESSION}/events.jsonl"
    )  # fmt: skip


def test_opencodes_title_and_answer_come_with_the_end_of_its_turn(daemon: AgentDaemon) -> None:
    daemon.send("opencode", "session.created")
    assert daemon.sessions()["opencode-ses_1"]["title"] is None  # the payload has only a placeholder
    daemon.send("opencode", "tool.execute.after")
    assert daemon.sessions()["opencode-ses_1"]["title"] is None  # the tool's, not the session's
    daemon.send("opencode", "session.idle")
    session = daemon.sessions()["opencode-ses_1"]
    assert (session["state"], session["title"], session["last_answer"]) == (
        "idle", "Run the tests", "All done: 12 tests pass."
    )  # fmt: skip
