"""Live tails over HTTP: gapless, resumable, bounded, and ended when the daemon stops."""

from __future__ import annotations

import contextlib
import socket
import sqlite3
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from daemon import Daemon, wait_until
from holdfast import Outbox
from live_client import LiveClient

Connect = Callable[..., LiveClient]


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    with Daemon(tmp_path / "home") as daemon:
        yield daemon


@pytest.fixture
def connect(daemon: Daemon) -> Iterator[Connect]:
    """Opens clients, and closes them at the end."""
    clients: list[LiveClient] = []

    def open_client(path: str, last_event_id: str | None = None, token: str | None = None) -> LiveClient:
        clients.append(LiveClient(daemon, path, last_event_id, token))
        return clients[-1]

    yield open_client
    for client in clients:
        client.close()


def append(daemon: Daemon, count: int, stream: str = "run:1", type: str = "run.step") -> list[str]:
    ids = []
    for number in range(count):
        status, answer = daemon.request(
            "POST", "/api/events", {"type": type, "stream": stream, "payload": {"n": number, "text": "a\nb\u2028c"}}
        )
        assert status == 201
        ids.append(answer["id"])
    return ids


def test_a_tail_sends_the_stored_events_and_then_each_new_one(daemon: Daemon, connect: Connect) -> None:
    ids = append(daemon, 3)
    client = connect("/api/streams/run:1/tail")
    assert client.status == 200
    assert client.headers["content-type"].startswith("text/event-stream")
    first = client.take(3)
    ids += append(daemon, 2)
    messages = first + client.take(2)
    assert [message.data["id"] for message in messages] == ids
    assert [message.id for message in messages] == ["1", "2", "3", "4", "5"]
    assert messages[4].data == daemon.request("GET", "/api/streams/run:1/events?after=4")[1]["items"][0]
    client.close()


def test_a_client_resumes_after_the_last_event_it_received(daemon: Daemon, connect: Connect) -> None:
    append(daemon, 5)
    assert [message.id for message in connect("/api/streams/run:1/tail?after=2").take(3)] == ["3", "4", "5"]
    resumed = connect("/api/streams/run:1/tail?after=1", last_event_id="4")
    append(daemon, 1)
    assert [message.id for message in resumed.take(2)] == ["5", "6"]


def test_a_long_stream_is_sent_whole_and_in_order(daemon: Daemon, connect: Connect) -> None:
    body = [{"type": "run.step", "stream": "run:1", "payload": {"text": "x" * 2000}} for _ in range(1500)]
    threads = [threading.Thread(target=lambda part=part: [daemon.request("POST", "/api/events", one) for one in part])
               for part in (body[0::4], body[1::4], body[2::4], body[3::4])]  # fmt: skip
    clients = [connect("/api/streams/run:1/tail?wait=true") for _ in range(3)]
    for thread in threads:
        thread.start()
    for client in clients:
        assert [message.data["seq"] for message in client.take(1500)] == list(range(1, 1501))
    for thread in threads:
        thread.join()


def test_a_position_that_is_not_stored_is_refused_before_anything_is_sent(daemon: Daemon, connect: Connect) -> None:
    append(daemon, 2)
    for path, id, status in (
        ("/api/streams/none/tail", None, 404),
        ("/api/streams/run:1/tail?after=3", None, 409),
        ("/api/streams/run:1/tail", "3", 409),
        ("/api/streams/run:1/tail", "x", 422),
        ("/api/streams/run:1/tail?after=-1", None, 422),
        ("/api/feed?after=x", None, 422),
    ):
        client = connect(path, id)
        assert (client.status, client.problem()["status"]) == (status, status), path
    connection = connect("/api/streams/run:1/tail", token="hf_wrong")
    assert connection.status == 401


def test_a_client_can_wait_for_a_stream_that_does_not_exist_yet(daemon: Daemon, connect: Connect) -> None:
    client = connect("/api/streams/run:1/tail?wait=true")
    append(daemon, 1)
    assert client.take(1)[0].data["seq"] == 1


def test_the_tail_of_an_event_without_a_stream_ends_after_it(daemon: Daemon, connect: Connect) -> None:
    id = daemon.request("POST", "/api/events", {"type": "alone"})[1]["id"]
    messages = list(connect(f"/api/streams/{id}/tail").messages())
    assert [(message.event, message.data.get("id")) for message in messages] == [("message", id), ("end", None)]


def test_the_tail_of_a_closed_stream_ends_replayed_or_live(daemon: Daemon, connect: Connect) -> None:
    append(daemon, 2)
    live = connect("/api/streams/run:1/tail")
    live.take(2)
    outbox = Outbox(f"sqlite:///{daemon.home}/holdfast.db")
    with contextlib.closing(sqlite3.connect(daemon.home / "holdfast.db")) as connection, connection:
        outbox.stream("run:1").close(connection, "run.ended")
    kinds = [("message", "run.ended"), ("end", None)]
    assert [(message.event, message.data.get("type")) for message in live.messages()] == kinds
    replayed = connect("/api/streams/run:1/tail?after=2")
    assert [(message.event, message.data.get("type")) for message in replayed.messages()] == kinds
    said = daemon.cli("tail", "run:1", "--json")
    assert (said.code, len(said.out.splitlines())) == (0, 3)


def test_a_pruned_position_is_410_and_the_default_is_the_first_stored_event(daemon: Daemon, connect: Connect) -> None:
    append(daemon, 5)
    with contextlib.closing(sqlite3.connect(daemon.home / "holdfast.db")) as connection, connection:
        connection.execute("DELETE FROM holdfast_events WHERE stream = 'run:1' AND seq <= 3")
    refused = connect("/api/streams/run:1/tail", "1")
    assert refused.status == 410
    assert (answer := refused.problem())["first_seq"] == 4
    assert answer["title"] == "position_pruned"
    assert [message.id for message in connect("/api/streams/run:1/tail").take(2)] == ["4", "5"]
    assert [message.id for message in connect("/api/streams/run:1/tail?after=3").take(2)] == ["4", "5"]
    assert len(daemon.cli("tail", "run:1", "--limit", "2").out.splitlines()) == 2


def test_the_feed_sends_every_event_from_now_on(daemon: Daemon, connect: Connect) -> None:
    append(daemon, 1)
    client = connect("/api/feed")
    ids = [
        *append(daemon, 2),
        *append(daemon, 1, "run:2"),
        daemon.request("POST", "/api/events", {"type": "x"})[1]["id"],
    ]
    messages = client.take(4)
    assert [message.data["id"] for message in messages] == ids
    resumed = connect("/api/feed", messages[1].id)
    assert [message.data["id"] for message in resumed.take(2)] == ids[2:]


@pytest.mark.parametrize(
    ("query", "expected"),
    [("type=b.*", ["b.1", "b.2"]), ("stream=run:2", ["b.2", "c"]), ("source=app&type=c", ["c"]), ("source=x", [])],
)
def test_the_feed_filters(daemon: Daemon, connect: Connect, query: str, expected: list[str]) -> None:
    client = connect(f"/api/feed?after=0&{query}")
    for type, stream in (("a", "run:1"), ("b.1", "run:1"), ("b.2", "run:2"), ("c", "run:2")):
        append(daemon, 1, stream, type)
    body = {"type": "last", "source": "x", "stream": "run:2"}
    assert daemon.request("POST", "/api/events", body)[0] == 201
    if query == "source=x":
        expected = ["last"]
    assert [message.data["type"] for message in client.take(len(expected))] == expected


def test_sigterm_ends_open_streams_at_once(daemon: Daemon, connect: Connect) -> None:
    append(daemon, 1)
    clients = [connect(path) for path in ("/api/streams/run:1/tail", "/api/feed") for _ in range(5)]
    clients[0].take(1)
    assert daemon.stop() == 0
    assert "graceful shutdown exceeded" not in daemon.log, "the server waited for responses that do not end"
    for client in clients:
        assert [message.event for message in client.messages()] in ([], ["message"])
    assert "Traceback" not in daemon.log


def test_a_tail_resumes_over_restarts_without_gap_or_repeat(daemon: Daemon, connect: Connect) -> None:
    seqs: list[int] = []
    last = "0"
    for kill in (False, True, False):
        append(daemon, 10)
        client = connect("/api/streams/run:1/tail", last)
        seqs += [message.data["seq"] for message in client.take(8)]
        append(daemon, 3)
        last = client.id
        if kill:
            daemon.kill9()
            daemon.start()
        else:
            daemon.restart()
    client = connect("/api/streams/run:1/tail", last)
    seqs += [message.data["seq"] for message in client.take(39 - len(seqs))]
    assert seqs == list(range(1, 40))


def test_a_client_that_leaves_is_forgotten(daemon: Daemon, connect: Connect) -> None:
    append(daemon, 1)
    before = open_files(daemon)
    clients = [connect("/api/streams/run:1/tail") for _ in range(20)]
    for client in clients:
        client.take(1)
    assert open_files(daemon) >= before + 15
    for client in clients:
        client.response.close()
        client.close()
    wait_until(lambda: open_files(daemon) <= before + 2, 60, lambda: f"{open_files(daemon)} files are open")
    assert "Traceback" not in daemon.log


def open_files(daemon: Daemon) -> int:
    return len(list(Path(f"/proc/{daemon.pid}/fd").iterdir()))


def test_a_client_that_reads_nothing_gets_an_error_and_is_disconnected(tmp_path: Path) -> None:
    """The daemon keeps a bounded amount for it: the socket is full long before the last event."""
    start = "import holdfast.surfaces.rest.event_stream as e; e.SEND_S = 1.0\n"
    (tmp_path / "sitecustomize.py").write_text(start)
    with Daemon(tmp_path / "home", cwd=tmp_path) as daemon:
        text = "x" * 500_000
        for _ in range(40):
            assert daemon.request("POST", "/api/events", {"type": "a", "stream": "s", "payload": text})[0] == 201
        host, port = daemon.url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))) as slow:
            request = (
                f"GET /api/streams/s/tail HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {daemon.token}\r\n\r\n"
            )
            slow.sendall(request.encode())
            wait_until(lambda: "read nothing for" in daemon.log, 60, lambda: daemon.log)
            received = b""
            while part := slow.recv(1 << 20):
                received += part
        assert received.count(b"\ndata:") < 40
        assert b'event: error\ndata: {"type": "about:blank", "title": "Too slow"' in received[-400:]
        healthy = LiveClient(daemon, "/api/streams/s/tail?after=39")
        assert healthy.take(1)[0].id == "40"
        healthy.close()
        assert "Traceback" not in daemon.log
