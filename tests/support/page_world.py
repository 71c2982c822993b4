"""A daemon with traffic of every kind, for tests that look at each screen of the web page.

with busy_daemon() as world:
    world.daemon, world.event, world.session
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Any, NamedTuple, Self

from playwright.sync_api import Page, expect

from daemon import Daemon
from holdfast.store.open import open_store
from holdfast.store.roles.history import ContractHour, Minute
from hooks import claude, write_hook
from page import Visitor

CONFIG = """
egress: {{allow: [127.0.0.0/8]}}
streams:
  sinks:
    - {{name: log, url: "file://{folder}/sink", streams: "order:*"}}
fleet:
  - {{name: mirror, url: "http://127.0.0.1:9"}}
"""


class Receiver:
    """A webhook receiver whose answer can be changed."""

    def __init__(self, status: int = 200, body: bytes = b"") -> None:
        self.status, self.body, self.received = status, body, 0
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                outer.received += 1
                self.send_response(outer.status)
                self.send_header("Content-Length", str(len(outer.body)))
                self.end_headers()
                self.wfile.write(outer.body)

            def log_message(self, *words: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/hook"

    def __enter__(self) -> Self:
        Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._server.shutdown()
        self._server.server_close()


class World(NamedTuple):
    """The daemon, an event with a dead delivery, an agent session, and a stream with several events."""

    daemon: Daemon
    event: str
    session: str
    stream: str

    @property
    def screens(self) -> dict[str, str]:
        """The path of every screen, by a name for its picture."""
        return {
            "overview": "/",
            "events": "/events",
            "event": f"/events/{self.event}",
            "sessions": "/sessions",
            "session": f"/sessions/{self.session}",
            "contracts": "/contracts",
            "contract": "/contracts/orders-to-billing",
            "new-contract": "/contracts/new",
            "edit-contract": "/contracts/orders-to-warehouse/edit",
            "dead-letters": "/dead-letters",
            "streams": "/streams",
            "stream": f"/streams/{self.stream}",
        }


@contextmanager
def busy_daemon() -> Iterator[World]:
    gone = b'{"error": "no such order", "hint": "the warehouse was moved to /v2/hook"}'
    with (
        TemporaryDirectory(prefix="hf-page-") as name,
        Receiver(200, b'{"ok": true}') as good,
        Receiver(404, gone) as bad,
        Receiver(503, b"maintenance") as down,
    ):
        folder = Path(name)
        with Daemon(folder / "home", config=CONFIG.format(folder=folder)) as daemon:
            _contracts(daemon, good.url, bad.url, down.url)
            _sessions(daemon)
            daemon.wait_for("/api/sessions", lambda answer: len(answer["items"]) == 5)
            daemon.wait_for("/api/sessions?state=ended", lambda answer: len(answer["items"]) == 1)
            daemon.wait_for("/api/sessions?state=waiting", lambda answer: len(answer["items"]) == 1)
            _events(daemon)
            with ThreadPoolExecutor(1) as thread:  # a test that drives a browser has an event loop already
                thread.submit(asyncio.run, _history(daemon)).result()
            daemon.wait_for("/api/dlq/count", lambda answer: answer["count"] == 8)
            daemon.request("GET", "/api/receipts/verify")
            _, letters = daemon.request("GET", "/api/dlq")
            _, sessions = daemon.request("GET", "/api/sessions?state=waiting")
            yield World(daemon, letters["items"][0]["event_id"], sessions["items"][0]["id"], "order:1001")


def log_in(page: Page, daemon: Daemon) -> Page:
    """Open the page of a daemon with a link, as `holdfast open` prints it."""
    page.goto(daemon.url + Visitor(daemon).link())
    page.get_by_role("button", name="Log in to Holdfast").click()
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    return page


def post(daemon: Daemon, path: str, body: Any) -> Any:
    status, answer = daemon.request("POST", path, body)
    assert status in (200, 201, 202), answer
    return answer


def emit(daemon: Daemon, type: str, **more: Any) -> str:
    return str(post(daemon, "/api/events", {"type": type, **more})["id"])


def _contracts(daemon: Daemon, good: str, bad: str, down: str) -> None:
    orders = {"pattern": "order.*"}
    contract: dict[str, Any]
    for contract in (
        {"id": "orders-to-warehouse", "target": {"url": bad, "secret": "whsec_" + "a" * 32}, "type_criterion": orders,
         "ordered": True, "attempts": 3},
        {"id": "orders-to-billing", "target": {"url": good}, "type_criterion": orders,
         "properties": {"region": {"match": ["eu", "us"]}}},
        {"id": "new-users", "target": {"url": good}, "type_criterion": {"match": "user.created"}, "rate": "10/s"},
        {"id": "audit", "target": {"url": down}, "source_criterion": {"match": "shop"}, "policy": "patient"},
        {"id": "ship", "target": {"handler": "ship"}, "type_criterion": {"match": "order.paid"}},
        {"id": "agent-stops", "target": {"url": good}, "type_criterion": {"match": "agent.agent_stop"},
         "format": "slack"},
    ):  # fmt: skip
        post(daemon, "/hooks/contracts", contract)
    post(daemon, "/hooks/contracts/new-users/disable", None)
    post(daemon, "/api/pause", {"scope": "contract", "name": "agent-stops"})


def _events(daemon: Daemon) -> None:
    for number in range(1001, 1006):
        order = {"id": number, "total": "19.90", "currency": "EUR", "items": [{"sku": "TEA-EARL-GREY", "quantity": 2}]}
        for type in ("order.placed", "order.paid"):
            if type == "order.placed" or number % 2:
                emit(daemon, type, source="shop", stream=f"order:{number}", properties={"region": "eu"}, payload=order)
    for plan in ("free", "pro", "team"):
        emit(daemon, "user.created", source="shop", properties={"plan": plan}, payload={"plan": plan})
    emit(daemon, "report.requested", payload={"note": "<script>document.title = 'x'</script>", "text": "long " * 300})


def _sessions(daemon: Daemon) -> None:
    spool = daemon.home / "spool"
    at_ms = int(time.time() * 1000) - 50 * 60_000
    number = 0

    def hook(session: str, minute: int, event: str, agent: str = "claude", **fields: Any) -> None:
        nonlocal number
        number += 1
        write_hook(spool, number, agent, claude(event, session, **fields), received_at=at_ms + minute * 60_000)

    for index, (session, prompt) in enumerate((
        ("payments-retry", "Make the payment client retry on 503 and add a test for it"),
        ("docs-rewrite", "Rewrite the introduction so that a newcomer understands it"),
        ("flaky-tests", "Find out why test_checkout fails one time in ten"),
        ("invoice-rounding-in-several-currencies-with-a-very-long-branch-name", "Round once, at the end"),
        ("release-notes", "Write the release notes of 2.4"),
    )):  # fmt: skip
        hook(session, index, "SessionStart", source="startup")
        hook(session, index + 2, "UserPromptSubmit", prompt=prompt)
        for minute in range(index + 4, index + 24, 4):
            hook(session, minute, "PreToolUse", tool_name="Bash", tool_input={"command": "pytest -q"})
            hook(session, minute + 1, "PostToolUse", tool_name="Bash", tool_input={"command": "pytest -q"})
    hook("payments-retry", 30, "Stop", last_assistant_message="Done: three attempts with backoff. All tests pass.")
    hook("docs-rewrite", 31, "Notification", message="Claude needs your permission to use Bash")
    hook("flaky-tests", 32, "Stop", last_assistant_message="The test depends on the order of a set. I sorted it.")
    hook("flaky-tests", 40, "UserPromptSubmit", prompt="Now look at test_refund too")
    hook("release-notes", 33, "SessionEnd", reason="exit")


async def _history(daemon: Daemon) -> None:
    """Counts of the last day, as daemons would have recorded them."""
    store = open_store(f"sqlite:///{daemon.home}/holdfast.db", create=False)
    now = int(time.time())
    for minute in range(now // 60 - 24 * 60, now // 60 + 1):
        wave = 1 + math.sin(minute / 90) + 0.4 * math.sin(minute / 7)
        accepted = max(0, round(180 * wave))
        stopped = minute % 240 in range(180, 195)  # a receiver that was down for a quarter of an hour
        dead = 6 if minute % 240 == 195 else 0
        delivered = accepted // 5 if stopped else accepted
        counts = Minute(minute, accepted, delivered, dead, accepted // 60, accepted - delivered, 40 if stopped else 1)
        await store.history.add(counts)
    hours = [
        ContractHour("orders-to-billing", hour, 300 + 90 * (hour % 7), 0, 0, 4 * (hour % 5 == 0), 9000 * (hour % 9 + 3))
        for hour in range(now // 3600 - 23, now // 3600 + 1)
    ]
    await store.history.add_contracts(hours)
    await store.close()
