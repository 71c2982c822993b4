"""From a platform's signed request to a contract's receiver, through a real daemon, also one that is killed between."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
from pathlib import Path
from typing import Any

import pytest

from daemon import Daemon, fetch, wait_until
from sink import Sink

SRC = Path(__file__).parents[2] / "src"
SECRET = "canary-of-github"
CONFIG = """
egress: {allow: [127.0.0.0/8]}
hooks:
  inbound:
    github:
      path: /hooks/github
      secret: ${GITHUB_WEBHOOK_SECRET}
      normalizer: github
    slow: {insecure: true, normalizer: "my_hooks:patient"}
"""
MY_HOOKS = """
import os, pathlib, time
from holdfast import HookEvent

def patient(payload, headers):
    home = pathlib.Path(os.environ["HOLDFAST_HOME"])
    (home / "begun").touch()
    while (home / "wait").exists():
        time.sleep(0.01)
    return HookEvent("slow", "slow.made", payload=payload)
"""
PUSH = {"ref": "refs/heads/main", "repository": {"full_name": "octo/hello"}, "sender": {"login": "mona"}}


def daemon_in(folder: Path) -> Daemon:
    (folder / "my_hooks.py").write_text(MY_HOOKS, encoding="utf-8")
    environment = {"PYTHONPATH": str(SRC), "GITHUB_WEBHOOK_SECRET": SECRET}
    return Daemon(folder / "home", config=CONFIG, cwd=folder, env=environment)


def push(daemon: Daemon, id: str) -> tuple[int, Any]:
    """As GitHub sends it, through a tunnel: no token, a Host of its own."""
    body = json.dumps(PUSH).encode()
    signature = "sha256=" + hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
    headers = {
        "Host": "abc.tunnel.example", "Content-Type": "application/json", "X-GitHub-Event": "push",
        "X-GitHub-Delivery": id, "X-Hub-Signature-256": signature,
    }  # fmt: skip
    return fetch(daemon.url, "POST", "/hooks/github", body, headers)


def subscribe(daemon: Daemon, type: str, url: str) -> None:
    contract = {"id": "wanted", "target": {"url": url}, "type_criterion": {"match": type}}
    status, answer = daemon.request("POST", "/hooks/contracts", contract)
    assert status == 201, answer


async def test_a_signed_push_reaches_the_receiver_of_a_contract(tmp_path: Path) -> None:
    async with Sink() as sink:
        with daemon_in(tmp_path) as daemon:
            await asyncio.to_thread(subscribe, daemon, "github.push", sink.url)
            for _ in range(2):  # GitHub's "Redeliver" sends the same id again
                assert await asyncio.to_thread(push, daemon, "d-1") == (200, {"status": "accepted"})
            (received,) = await sink.wait_for(1)
            event = json.loads(received.body)
            assert (event["source"], event["type"], event["stream"]) == ("github", "github.push", "github:octo/hello")
            assert event["payload"] == PUSH
            assert event["properties"] == {
                "event": "push", "repo": "octo/hello", "sender": "mona", "ref": "refs/heads/main", "branch": "main",
                "delivery": "d-1", "actor_login": "mona", "actor_name": "mona", "channel_id": "octo/hello",
            }  # fmt: skip
            assert await asyncio.to_thread(daemon.stop) == 0
            assert len(sink.received) == 1
            written = (
                b"".join(path.read_bytes() for path in daemon.home.iterdir() if path.is_file()) + daemon.log.encode()
            )
            assert SECRET.encode() not in written
            assert b"sha256=" not in written


@pytest.mark.slow
async def test_a_daemon_killed_between_accepting_and_normalizing_loses_nothing(tmp_path: Path) -> None:
    async with Sink() as sink:
        with daemon_in(tmp_path) as daemon:
            await asyncio.to_thread(subscribe, daemon, "slow.made", sink.url)
            (daemon.home / "wait").touch()
            sent = [{"number": number} for number in range(3)]
            for payload in sent:
                answer = await asyncio.to_thread(
                    fetch, daemon.url, "POST", "/hooks/inbound/slow", json.dumps(payload).encode(), {}
                )
                assert answer == (200, {"status": "accepted"})
            await asyncio.to_thread(wait_until, (daemon.home / "begun").exists, 10.0, lambda: daemon.log)
            daemon.kill9()
            assert sink.received == []
            (daemon.home / "wait").unlink()
            await asyncio.to_thread(daemon.start)
            received = await sink.wait_for(3)
            bodies = [json.loads(each.body) for each in received]
            assert sorted(bodies, key=lambda event: event["seq"]) == sorted(
                bodies, key=lambda event: event["payload"]["number"]
            )
            assert sorted(event["payload"]["number"] for event in bodies) == [0, 1, 2]


def test_a_normalizer_that_does_not_exist_stops_the_start(tmp_path: Path) -> None:
    daemon = daemon_in(tmp_path)
    (tmp_path / "my_hooks.py").unlink()
    with pytest.raises(AssertionError, match="cannot be imported: ModuleNotFoundError"):
        daemon.start()


APP = """
import os
from holdfast import HookEvent, Outbox

outbox = Outbox("sqlite:///" + os.environ["HOLDFAST_HOME"] + "/app.db")
outbox.normalizers["alarm"] = lambda payload: [HookEvent("alarm", "alarm." + kind) for kind in payload["kinds"]]

@outbox.on("alarm.*")
def note(event):
    with open(os.environ["HOLDFAST_HOME"] + "/noted", "a") as file:
        file.write(event.type + "\\n")
"""


def test_an_application_brings_its_own_normalizer_and_handles_what_it_makes(tmp_path: Path) -> None:
    (tmp_path / "my_app.py").write_text(APP, encoding="utf-8")
    config = "hooks: {inbound: {alarm: {insecure: true, path: /alarm}}}"
    noted = tmp_path / "home" / "noted"
    with Daemon(
        tmp_path / "home", config=config, app="my_app:outbox", cwd=tmp_path, env={"PYTHONPATH": str(SRC)}
    ) as daemon:
        body = json.dumps({"kinds": ["fire", "water"]}).encode()
        assert fetch(daemon.url, "POST", "/alarm", body, {}) == (200, {"status": "accepted"})
        wait_until(lambda: noted.exists() and len(noted.read_text().split()) == 2, 10.0, lambda: daemon.log)
    assert sorted(noted.read_text().split()) == ["alarm.fire", "alarm.water"]
