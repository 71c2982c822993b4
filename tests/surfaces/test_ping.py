"""`contracts ping`: a sample event through one contract alone, attempted once, and what came of it."""

from __future__ import annotations

import asyncio
import itertools
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from daemon import Daemon, shop
from holdfast import Outbox

_numbers = itertools.count(1)


class Receiver:
    """A local receiver that answers with the status in its path, such as /503."""

    def __init__(self) -> None:
        bodies = self.bodies = list[dict[str, Any]]()

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                bodies.append({"path": self.path, "signed": "webhook-signature" in self.headers, **body})
                self.send_response(int(self.path.rpartition("/")[2]))
                self.send_header("Content-Length", "4")
                self.end_headers()
                self.wfile.write(b"seen")

            def log_message(self, *words: object) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def url(self, status: int) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/{next(_numbers)}/{status}"

    def at(self, url: str) -> list[dict[str, Any]]:
        return [body for body in self.bodies if url.endswith(body["path"])]

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    one = Receiver()
    yield one
    one.close()


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with shop(tmp_path_factory.mktemp("shop")) as running:
        yield running


def add(daemon: Daemon, url: str, **more: Any) -> str:
    id = f"c{next(_numbers)}"
    body = {"id": id, "target": {"url": url, **more.pop("target", {})}, **more}
    status, answer = daemon.request("POST", "/hooks/contracts", body)
    assert status == 201, answer
    return id


def ping(daemon: Daemon, id: str) -> tuple[int, Any]:
    return daemon.request("POST", f"/hooks/contracts/{id}/ping", {})


def deliveries(daemon: Daemon, event: str) -> list[dict[str, Any]]:
    return list(daemon.request("GET", f"/api/deliveries?event={event}")[1]["items"])


def test_a_ping_reaches_its_contract_alone_whatever_the_criteria(daemon: Daemon, receiver: Receiver) -> None:
    others = [receiver.url(200), receiver.url(200)]
    add(daemon, others[0])
    add(daemon, others[1], type_criterion={"pattern": "holdfast.*"})
    url = receiver.url(200)
    id = add(daemon, url, target={"secret": "s3cret"}, source_criterion={"match": "github"}, properties={"a": "b"})
    status, answer = ping(daemon, id)
    assert status == 200
    assert (answer["delivered"], answer["error"], answer["contract_id"]) == (True, None, id)
    assert (answer["attempt"]["detail"]["status"], answer["attempt"]["detail"]["response"]) == (200, "seen")
    (body,) = receiver.at(url)
    assert (body["type"], body["signed"], body["payload"]["contract"]) == ("holdfast.ping", True, id)
    assert [row["contract_id"] for row in deliveries(daemon, answer["event_id"])] == [id]
    assert not any(receiver.at(other) for other in others)


def test_a_ping_reaches_the_handler_of_an_application(daemon: Daemon) -> None:
    said = daemon.cli("contracts", "ping", "ship")
    assert said.code == 0, said
    assert said.out.startswith("Delivered: handler:ship")


@pytest.mark.parametrize("status", [503, 404])
def test_a_failed_ping_is_neither_retried_nor_a_dead_letter(status: int, daemon: Daemon, receiver: Receiver) -> None:
    url = receiver.url(status)
    id = add(daemon, url)
    said = daemon.cli("contracts", "ping", id)
    assert said.code == 1, said
    assert f"answered {status}" in said.out
    assert "response  seen" in said.out
    answer = daemon.cli("contracts", "ping", id, "--json")
    assert answer.code == 1
    (row,) = deliveries(daemon, answer.json["event_id"])
    assert (row["state"], row["attempts"]) == ("dropped", 1)
    assert daemon.request("GET", f"/api/dlq/count?contract={id}")[1]["count"] == 0
    assert len(receiver.at(url)) == 2


def test_a_contract_that_cannot_deliver_is_refused_with_the_reason(daemon: Daemon, receiver: Receiver) -> None:
    id = add(daemon, receiver.url(200))
    daemon.request("POST", f"/hooks/contracts/{id}/disable", {})
    said = daemon.cli("contracts", "ping", id)
    assert said.code == 1
    assert f"holdfast contracts enable {id}" in said.err
    daemon.request("POST", "/hooks/contracts", {"id": "nobody", "target": {"handler": "nobody"}})
    assert "served by no process" in ping(daemon, "nobody")[1]["detail"]
    body = {"id": "chat", "target": {"session": "backend"}, "senders": {"github": ["1"]}}
    assert daemon.request("POST", "/hooks/contracts", body)[0] == 201
    status, answer = ping(daemon, "chat")
    assert status == 409
    assert "holdfast send backend TEXT" in answer["detail"]
    assert ping(daemon, "unknown")[0] == 404


def test_a_ping_through_a_paused_contract_says_so_and_leaves_nothing(daemon: Daemon, receiver: Receiver) -> None:
    url = receiver.url(200)
    id = add(daemon, url)
    daemon.request("POST", "/api/pause", {"scope": "contract", "name": id})
    _, answer = ping(daemon, id)
    assert (answer["delivered"], answer["attempt"]) == (False, None)
    assert "paused" in answer["error"]
    daemon.request("POST", "/api/resume", {"scope": "contract", "name": id})
    assert ping(daemon, id)[1]["delivered"]
    assert len(receiver.at(url)) == 1


def test_explain_says_why_no_other_contract_got_the_ping(daemon: Daemon, receiver: Receiver) -> None:
    other, id = add(daemon, receiver.url(200)), add(daemon, receiver.url(200))
    event = ping(daemon, id)[1]["event_id"]
    answer = daemon.request("GET", f"/api/events/{event}/explain?limit=1000")[1]
    assert answer["wanted_now"] == [id]
    (miss,) = [one for one in answer["missed"] if one["contract_id"] == other]
    assert miss["why"] == ["a ping reaches only the contract that it names"]


def test_python_pings_a_store_that_a_daemon_serves(daemon: Daemon, receiver: Receiver) -> None:
    id = add(daemon, receiver.url(200))
    outbox = Outbox(f"sqlite:///{daemon.home}/holdfast.db")
    assert outbox.contract_ping(id).delivered
    assert daemon.cli("contracts", "ping", id, "--store", outbox.url).code == 0


async def test_an_application_pings_from_its_own_event_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_HOME", str(tmp_path / "home"))
    outbox = Outbox(f"sqlite:///{tmp_path}/app.db")
    outbox.migrate()
    seen = list[str]()

    @outbox.on("order.*")
    def ship(event: Any) -> None:
        seen.append(event.type)

    async with outbox.lifespan():
        answer = await asyncio.to_thread(outbox.contract_ping, "ship")
    assert answer.delivered
    assert seen == ["holdfast.ping"]
