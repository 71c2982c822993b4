"""The tail of a stream over a WebSocket: the token comes first, positions resume, nothing else is served."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from daemon import Daemon, wait_until


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with Daemon(tmp_path_factory.mktemp("live") / "home") as daemon:
        yield daemon


def append(daemon: Daemon, stream: str, count: int) -> None:
    for number in range(count):
        body = {"type": "run.step", "stream": stream, "payload": {"n": number}}
        assert daemon.request("POST", "/api/events", body)[0] == 201


def open_socket(daemon: Daemon, stream: str, **more: Any) -> ClientConnection:
    return connect(f"{daemon.url.replace('http', 'ws', 1)}/api/streams/{stream}/ws", proxy=None, **more)


def receive(socket: ClientConnection) -> Any:
    while "heartbeat" in (message := json.loads(socket.recv(timeout=60))):
        pass
    return message


def test_a_client_authenticates_with_its_first_message_and_follows_the_stream(daemon: Daemon) -> None:
    append(daemon, "run:1", 3)
    with open_socket(daemon, "run:1") as socket:
        socket.send(json.dumps({"token": daemon.token}))
        first = [receive(socket)["event"] for _ in range(3)]
        append(daemon, "run:1", 2)
        events = first + [receive(socket)["event"] for _ in range(2)]
    assert events == daemon.request("GET", "/api/streams/run:1/events")[1]["items"]


def test_a_client_resumes_after_a_position(daemon: Daemon) -> None:
    append(daemon, "run:2", 4)
    with open_socket(daemon, "run:2") as socket:
        socket.send(json.dumps({"token": daemon.token, "after": 2}))
        assert [receive(socket)["event"]["seq"] for _ in range(2)] == [3, 4]


@pytest.mark.parametrize(
    ("message", "status"),
    [
        ('{"token": "hf_wrong"}', 403), ("{}", 403), ("[]", 403), ("hello", 403), ('{"token": 5}', 403),
        ('{"token": "TOKEN", "after": -1}', 422), ('{"token": "TOKEN", "after": "x"}', 422),
        ('{"token": "TOKEN", "after": 99}', 409), ('{"token": "TOKEN"}', 404),
    ],
)  # fmt: skip
def test_a_refusal_is_an_error_message_and_the_end(daemon: Daemon, message: str, status: int) -> None:
    append(daemon, "run:3", 1)
    with open_socket(daemon, "none" if status == 404 else "run:3") as socket:
        socket.send(message.replace("TOKEN", daemon.token))
        assert receive(socket)["error"]["status"] == status
        with pytest.raises(ConnectionClosed) as closed:
            socket.recv(timeout=60)
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1008


def test_only_tails_are_served_and_only_to_pages_of_this_daemon(daemon: Daemon) -> None:
    with pytest.raises(InvalidStatus):
        connect(daemon.url.replace("http", "ws", 1) + "/api/feed", proxy=None)
    with pytest.raises(InvalidStatus):
        open_socket(daemon, "run:1", origin="https://evil.example")
    with pytest.raises(InvalidStatus):
        open_socket(daemon, "run:1", additional_headers={"Host": "evil.example"})
    with open_socket(daemon, "run:1", origin=daemon.url) as socket:
        socket.send("{}")
        assert receive(socket)["error"]["status"] == 403


def test_a_token_in_the_url_does_not_authenticate(daemon: Daemon) -> None:
    url = f"{daemon.url.replace('http', 'ws', 1)}/api/streams/run:1/ws?token={daemon.token}"
    with connect(url, proxy=None) as socket:
        socket.send("{}")
        assert receive(socket)["error"]["status"] == 403


def test_the_stream_of_one_event_ends(daemon: Daemon) -> None:
    id = daemon.request("POST", "/api/events", {"type": "alone"})[1]["id"]
    with open_socket(daemon, id) as socket:
        socket.send(json.dumps({"token": daemon.token}))
        assert receive(socket)["event"]["id"] == id
        assert receive(socket) == {"end": {}}


def test_a_first_message_that_is_too_large_ends_the_connection(daemon: Daemon) -> None:
    with open_socket(daemon, "run:1") as socket:
        socket.send("x" * 100_000)
        with pytest.raises(ConnectionClosed):
            socket.recv(timeout=60)


def test_a_restart_ends_connections_at_once_and_clients_resume(tmp_path: Path) -> None:
    with Daemon(tmp_path / "home") as daemon:
        append(daemon, "run:1", 2)
        seqs = []
        for _ in range(2):
            with open_socket(daemon, "run:1") as socket:
                socket.send(json.dumps({"token": daemon.token, "after": len(seqs)}))
                seqs += [receive(socket)["event"]["seq"] for _ in range(2)]
                assert daemon.stop() == 0
                with pytest.raises(ConnectionClosed) as closed:
                    socket.recv(timeout=60)
                assert closed.value.rcvd is not None
                assert closed.value.rcvd.code == 1012
            daemon.start()
            append(daemon, "run:1", 2)
        assert seqs == [1, 2, 3, 4]
        assert "Traceback" not in daemon.log


def test_the_library_is_not_loaded_before_a_client_connects(tmp_path: Path) -> None:
    with Daemon(tmp_path / "home") as daemon:
        maps = Path(f"/proc/{daemon.pid}/maps")
        assert "/websockets/" not in maps.read_text()
        append(daemon, "run:1", 1)
        with open_socket(daemon, "run:1") as socket:
            socket.send(json.dumps({"token": daemon.token}))
            receive(socket)
        assert "/websockets/" in maps.read_text()


def test_a_client_that_reads_nothing_is_disconnected(tmp_path: Path) -> None:
    start = "import holdfast.surfaces.rest.event_stream as e; e.SEND_S = 1.0\n"
    (tmp_path / "sitecustomize.py").write_text(start)
    with Daemon(tmp_path / "home", cwd=tmp_path) as daemon:
        for _ in range(40):
            body = {"type": "a", "stream": "s", "payload": "x" * 500_000}
            assert daemon.request("POST", "/api/events", body)[0] == 201
        with open_socket(daemon, "s", max_queue=1, max_size=None) as socket:
            socket.send(json.dumps({"token": daemon.token}))
            wait_until(lambda: "read nothing for" in daemon.log, 60, lambda: daemon.log)
            with pytest.raises(ConnectionClosed):
                list(socket)  # what was on its way, then the end
        assert "Traceback" not in daemon.log
