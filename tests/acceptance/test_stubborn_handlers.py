"""Handlers that block, never end or try to leave, in the real daemon and on both stores: each is named in the log, the
others go on, and SIGTERM ends the process all the same."""

from __future__ import annotations

import asyncio
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from daemon import Daemon, wait_until
from postgres import end_schema, fresh_schema, newest, start
from threaded_receiver import Plan, ThreadedReceiver

pytestmark = pytest.mark.slow

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"

APP = """
import asyncio, os, sys, threading, time
from holdfast import Outbox

outbox = Outbox(os.environ["APP_STORE"])
outbox.migrate()

def note(what):
    with open(os.environ["APP_NOTES"], "a") as notes:
        notes.write(what + "\\n")

@outbox.on("good.plain")
def good_plain(event):
    note("good_plain")

@outbox.on("good.async")
async def good_async(event):
    note("good_async")

@outbox.on("stuck")
def stuck(event):
    note("stuck")
    threading.Event().wait()

@outbox.on("deaf")
async def deaf(event):
    note("deaf")
    while True:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            pass

@outbox.on("leave")
async def leave(event):
    note("leave")
    sys.exit(7)

@outbox.on("leave.child")
async def leave_child(event):
    async def child():
        note("child")
        sys.exit(7)
    await asyncio.create_task(child())

@outbox.on("fill", timeout=1)
async def fill(event):
    note("fill")
    await asyncio.to_thread(threading.Event().wait)

@outbox.on("block")
async def block(event):
    note("block")
    deadline = time.monotonic() + float(os.environ.get("APP_BLOCK", "7"))
    while time.monotonic() < deadline:
        time.sleep(0.05)
    note("unblocked")
"""


class App(Daemon):
    def __init__(self, folder: Path, store: str, config: str = "", **env: str) -> None:
        (folder / "stubborn.py").write_text(APP)
        self.notes_file = folder / "notes"
        self.notes_file.touch()
        super().__init__(
            folder / "home",
            config=f"daemon: {{grace_seconds: 2}}\n{config}",
            app="stubborn:outbox",
            cwd=folder,
            env={"APP_STORE": store, "APP_NOTES": str(self.notes_file), **env},
        )

    def emit(self, *types: str) -> None:
        for type in types:
            status, answer = self.request("POST", "/api/events", {"type": type})
            assert status == 201, answer

    def pending(self) -> list[str]:
        """The addresses of deliveries without an end."""
        status, answer = self.request("GET", "/api/deliveries?state=pending")
        assert status == 200, answer
        return [item["address"] for item in answer["items"]]

    def wait_note(self, what: str, count: int = 1) -> None:
        wait_until(
            lambda: self.notes_file.read_text().split().count(what) >= count,
            60.0,
            lambda: f"{what} did not run {count} times:\n{self.notes_file.read_text()}\n{self.log}",
        )

    def terminate(self) -> int:
        """SIGTERM, and the exit code; a minute is for what hangs."""
        process = self._process
        assert process is not None
        process.send_signal(signal.SIGTERM)
        try:
            code = process.wait(60)
        except subprocess.TimeoutExpired:
            pytest.fail(f"the daemon did not end:\n{self.log}")
        self._process = None
        return code


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/app.db"
        return
    server, schema = start(newest()), fresh_schema()
    yield server.url(schema)
    asyncio.run(end_schema(server, schema))


def test_stuck_functions_stop_nothing_else_and_a_stop_names_them(tmp_path: Path, store: str) -> None:
    with App(tmp_path, store) as app:
        app.emit(*["stuck"] * 40)
        app.wait_note("stuck", 8)
        app.emit("good.plain", "good.async")
        app.wait_note("good_plain")
        app.wait_note("good_async")
        assert app.request("GET", "/api/status")[0] == 200
        assert app.terminate() == 0
        log = app.log
        assert "Stopped cleanly." not in log.rpartition("Stopping:")[2]
        assert "interrupted and will run again after the next start: handler:stuck with event evt_" in log
        app.start()
        app.wait_note("stuck", 9)  # it runs again


def test_a_handler_that_ignores_cancellation_does_not_hold_up_the_stop(tmp_path: Path, store: str) -> None:
    with App(tmp_path, store) as app:
        app.emit("deaf", "good.async")
        app.wait_note("deaf")
        app.wait_note("good_async")
        assert app.terminate() == 0
        assert "handler:deaf with event evt_" in app.log


def test_a_handler_that_calls_exit_does_not_end_the_daemon(tmp_path: Path, store: str) -> None:
    with App(tmp_path, store) as app:
        app.emit("leave")
        app.wait_note("leave", 2)
        app.emit("good.async")
        app.wait_note("good_async")
        assert "handler:leave" in app.log
        assert "SystemExit: 7" in app.log
        wait_until(lambda: app.pending() == ["handler:leave"], 60.0, lambda: str(app.pending()))
        assert app.terminate() == 0
        assert "Stopped cleanly." in app.log


def test_an_exit_in_a_task_of_a_handler_does_not_end_the_daemon(tmp_path: Path, store: str) -> None:
    with App(tmp_path, store) as app:
        app.emit("leave.child")
        app.wait_note("child", 2)
        app.emit("good.async")
        app.wait_note("good_async")
        assert "a handler raised SystemExit" in app.log
        assert app.terminate() == 0


def test_handlers_that_fill_the_default_threads_stop_neither_webhooks_nor_the_api(tmp_path: Path, store: str) -> None:
    config = "egress: {allow: [127.0.0.0/8]}\n"
    with ThreadedReceiver(lambda n: Plan((OK,))).running() as receiver, App(tmp_path, store, config) as app:
        url = f"http://localhost:{receiver.port}/hook"
        wish = {"id": "hook", "target": {"url": url}, "type_criterion": {"match": "hook"}}
        assert app.request("POST", "/hooks/contracts", wish)[0] == 201
        app.emit(*["fill"] * 40)
        app.wait_note("fill", 12)
        app.emit("hook", "good.plain")
        app.wait_note("good_plain")
        app.wait_for(
            "/api/deliveries?contract=hook", lambda found: [one["state"] for one in found["items"]] == ["delivered"]
        )
        assert app.terminate() == 0
        assert "by force" not in app.log


def test_a_blocked_event_loop_is_named_with_the_place_where_it_hangs(tmp_path: Path, store: str) -> None:
    with App(tmp_path, store) as app:
        app.emit("block")
        app.wait_note("unblocked")
        app.emit("good.async")
        app.wait_note("good_async")
        wait_until(lambda: "responds again after" in app.log, 60.0, lambda: app.log)
        assert "handler:block (event evt_" in app.log
        assert "has blocked the event loop for" in app.log
        assert "stubborn.py" in app.log
        assert app.notes_file.read_text().split().count("block") == 1, "it must not run a second time"


def test_an_endless_loop_does_not_survive_sigterm(tmp_path: Path, store: str) -> None:
    with App(tmp_path, store, APP_BLOCK="100000") as app:
        app.emit("block")
        app.wait_note("block")
        assert app.terminate() == 1
        assert "Stopped by force after 3 s." in app.log
        assert "handler:block with event evt_" in app.log
