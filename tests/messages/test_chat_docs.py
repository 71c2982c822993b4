"""The configuration in docs/agents/chat.md, run by a real daemon against stand-ins of the platforms' APIs."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from daemon import Daemon, fetch, wait_until
from hooks import claude, write_hook

PAGE = (Path(__file__).parents[2] / "docs" / "agents" / "chat.md").read_text(encoding="utf-8")
(CONFIG,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
HOSTS = ("https://api.telegram.org", "https://slack.com", "https://api.github.com")
SECRETS = {
    "TELEGRAM_SECRET": "telegram-secret", "TELEGRAM_TOKEN": "123:AAbb", "SLACK_SIGNING_SECRET": "slack-secret",
    "SLACK_TOKEN": "xoxb-1", "GITHUB_WEBHOOK_SECRET": "github-secret", "GITHUB_TOKEN": "ghp_1",
}  # fmt: skip
Calls = list[tuple[str, dict[str, str], dict[str, Any]]]


@pytest.fixture
def platforms() -> Iterator[tuple[str, Calls]]:
    """The APIs of the platforms: they record what they are asked to post."""
    calls: Calls = []

    class Api(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            calls.append((self.path, dict(self.headers), json.loads(body)))
            self.send_response(200)
            self.send_header("Content-Length", "11")
            self.end_headers()
            self.wfile.write(b'{"ok":true}')

        def log_message(self, *arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Api)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}", calls
    server.shutdown()
    server.server_close()


@pytest.fixture
def daemon(platforms: tuple[str, Calls], tmp_path: Path) -> Iterator[Daemon]:
    config = CONFIG
    for host in HOSTS:
        assert host in config
        config = config.replace(host, platforms[0])
    config += "egress: {allow: [127.0.0.0/8]}\nsessions: {transcripts: 'off'}\n"
    with Daemon(tmp_path / "home", config=config, env=SECRETS) as daemon:
        hook(daemon, "SessionStart", source="startup")
        daemon.wait_for("/api/sessions", lambda page: page["items"])
        yield daemon


def hook(daemon: Daemon, event: str, **fields: Any) -> None:
    write_hook(daemon.home / "spool", time.time_ns() // 1000 % 2**40, "claude", claude(event, "s1", **fields))


def post(daemon: Daemon, name: str, body: dict[str, Any], headers: dict[str, str]) -> None:
    raw = json.dumps(body).encode()
    status, answer = fetch(daemon.url, "POST", f"/hooks/inbound/{name}", raw, headers)
    assert status == 200, answer


def signature(secret: str, content: bytes) -> str:
    return hmac.new(SECRETS[secret].encode(), content, hashlib.sha256).hexdigest()


def say_by_telegram(daemon: Daemon) -> None:
    person, chat = {"id": 4711, "first_name": "Ada"}, {"id": 4711, "type": "private"}
    message = {"message_id": 5, "date": 1790000000, "chat": chat, "from": person, "text": "please rebase"}
    headers = {"Content-Type": "application/json", "X-Telegram-Bot-Api-Secret-Token": SECRETS["TELEGRAM_SECRET"]}
    post(daemon, "telegram", {"update_id": 99, "message": message}, headers)


def say_by_slack(daemon: Daemon) -> None:
    event = {"type": "message", "user": "U024BE7LH", "channel": "C024BE91L", "text": "run the tests", "ts": "179.1"}
    body = {"type": "event_callback", "team_id": "T1", "event_id": "Ev1", "event_time": 1790000000, "event": event}
    now = str(int(time.time()))
    signed = b"v0:" + now.encode() + b":" + json.dumps(body).encode()
    headers = {
        "Content-Type": "application/json",
        "X-Slack-Request-Timestamp": now,
        "X-Slack-Signature": "v0=" + signature("SLACK_SIGNING_SECRET", signed),
    }
    post(daemon, "slack", body, headers)


def say_by_github(daemon: Daemon) -> None:
    author = {"login": "mona", "id": 583231}
    body = {
        "action": "created",
        "comment": {"id": 77, "body": "Why not a set?", "path": "a.py", "line": 3, "user": author,
                    "author_association": "MEMBER"},
        "pull_request": {"number": 12, "node_id": "PR_kw12", "head": {"ref": "fix"}},
        "repository": {"full_name": "acme/shop"},
        "sender": author,
    }  # fmt: skip
    headers = {
        "Content-Type": "application/json",
        "X-GitHub-Event": "pull_request_review_comment",
        "X-GitHub-Delivery": "d-1",
        "X-Hub-Signature-256": "sha256=" + signature("GITHUB_WEBHOOK_SECRET", json.dumps(body).encode()),
    }
    post(daemon, "github", body, headers)


def test_what_is_written_on_a_platform_reaches_the_agent_and_its_answer_goes_back(
    daemon: Daemon, platforms: tuple[str, Calls]
) -> None:
    calls = platforms[1]
    for origin, channel in (("telegram", "4711"), ("slack", "C024BE91L"), ("github", "acme/shop#12")):
        assert daemon.cli("sessions", "bind", "s1", "--origin", origin, "--channel", channel).code == 0
    expected = {
        "telegram": (say_by_telegram, "[Telegram: Ada wrote]\n> please rebase"),
        "slack": (say_by_slack, "[Slack: U024BE7LH wrote in C024BE91L]\n> run the tests"),
        "github": (say_by_github, "[GitHub: mona commented on acme/shop#12 (a.py:3)]\n> Why not a set?"),
    }
    for number, (say, text) in enumerate(expected.values(), 1):
        say(daemon)
        page = daemon.wait_for(
            "/api/events?type=message.queued", lambda page, number=number: len(page["items"]) == number
        )
        assert page["items"][0]["payload"]["content"] == text
        # The agent gets the message and answers it.
        hook(daemon, "UserPromptSubmit", prompt=text)
        hook(daemon, "Stop", last_assistant_message=f"Answer {number}")
        wait_until(lambda number=number: len(calls) == number, 60, lambda: f"{calls}\n{daemon.log}")  # type: ignore[misc]
    by_telegram, by_slack, by_github = calls
    assert by_telegram[0] == "/bot123:AAbb/sendMessage"
    assert by_telegram[2] == {"chat_id": "4711", "text": "Answer 1"}
    assert by_slack[0] == "/api/chat.postMessage"
    assert by_slack[1]["Authorization"] == "Bearer xoxb-1"
    assert by_slack[2] == {"channel": "C024BE91L", "thread_ts": "179.1", "text": "Answer 2"}
    assert by_github[0] == "/graphql"
    assert by_github[2]["variables"] == {"id": "PR_kw12", "body": "Answer 3"}
    assert by_github[2]["query"].startswith("mutation($id: ID!, $body: String!) { addComment(")
    # A person's own prompt is answered to nobody.
    hook(daemon, "UserPromptSubmit", prompt="my own words")
    hook(daemon, "Stop", last_assistant_message="private")
    daemon.wait_for("/api/events?type=agent.agent_stop", lambda page: len(page["items"]) == 4)
    daemon.wait_for("/api/status", lambda status: status["unrouted"] == 0 and status["in_flight"] == 0)
    assert len(calls) == 3
    shown = daemon.cli("sessions", "show", "s1")
    assert shown.code == 0
    assert "message telegram, queued" in shown.out  # there is no terminal, so it was never typed
    assert "  Answer 3" in shown.out.splitlines()
    assert max(len(line) for line in shown.out.splitlines()) <= 80
