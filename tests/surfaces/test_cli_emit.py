"""`holdfast emit`: through the daemon, or through the spool when none answers."""

from __future__ import annotations

import json
import os
import re
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from daemon import Daemon, run_cli


@pytest.fixture(scope="module")
def daemon() -> Iterator[Daemon]:
    with Daemon() as running:
        yield running


def test_every_option_reaches_the_event(daemon: Daemon) -> None:
    said = daemon.cli(
        "emit", "order.placed", "--source", "till", "--stream", "order:42", "--property", "n=5",
        "--property", "ok=true", "--property", "rate=1.5", "--property", "zip=00501", "--property", 'text="5"',
        "--payload", '{"id": 42}', "--to", "handler:nobody", "--timestamp", "2026-01-31T12:00:00Z", "--json",
    )  # fmt: skip
    assert said.code == 0, said.err
    assert said.json | {"id": ""} == {"id": "", "stream": "order:42", "seq": 1, "duplicate": False}
    event = daemon.request("GET", f"/api/events/{said.json['id']}")[1]
    assert event["source"] == "till"
    assert event["properties"] == {"n": 5, "ok": True, "rate": 1.5, "zip": "00501", "text": "5"}
    assert event["payload"] == {"id": 42}
    assert event["to"] == "handler:nobody"
    assert event["timestamp"] == "2026-01-31T12:00:00Z"


def test_the_payload_may_come_from_standard_input(daemon: Daemon) -> None:
    said = daemon.cli("emit", "a.b", "--payload", "-", "--json", input='["ü", 1]')
    assert daemon.request("GET", f"/api/events/{said.json['id']}")[1]["payload"] == ["ü", 1]


def test_the_same_key_again_answers_the_first(daemon: Daemon) -> None:
    first = daemon.cli("emit", "a.b", "--dedup", "k1", "--json").json
    again = daemon.cli("emit", "a.b", "--dedup", "k1", "--json")
    assert (again.code, again.json) == (0, {**first, "duplicate": True})
    other = daemon.cli("emit", "a.b", "--dedup", "k1", "--payload", "1")
    assert other.code == 1
    assert "dedup_key" in other.err


def test_for_people_it_is_one_line(daemon: Daemon) -> None:
    said = daemon.cli("emit", "a.b", "--stream", "line:1")
    assert re.fullmatch(r"evt_\w+ accepted as number 1 of line:1\n", said.out)
    assert said.err == ""
    assert re.fullmatch(r"evt_\w+ accepted\n", daemon.cli("emit", "a.b").out)
    daemon.cli("emit", "a.b", "--dedup", "line")
    assert re.fullmatch(r"evt_\w+ was already accepted\n", daemon.cli("emit", "a.b", "--dedup", "line").out)


def test_a_reader_that_has_gone_is_no_failure(daemon: Daemon) -> None:
    for arguments in (("emit", "a.b"), ("emit", "a.b", "--json"), ("status",)):
        reading, writing = os.pipe()
        os.close(reading)
        env = {**os.environ, "HOLDFAST_HOME": str(daemon.home)}
        command = [sys.executable, "-m", "holdfast", *arguments]
        done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, env=env, timeout=60, check=False)
        os.close(writing)
        assert (arguments, done.returncode, done.stderr) == (arguments, 0, b"")


@pytest.fixture(params=["read-only", "writable by others", "a file", "below a file"])
def unusable(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A home whose spool cannot be written."""
    home = tmp_path / "home"
    match request.param:
        case "read-only":
            home.mkdir(mode=0o500)
            if os.access(home, os.W_OK):
                pytest.skip("this user may write everywhere")
        case "writable by others":
            home.mkdir()
            home.chmod(0o770)
        case "a file":
            home.write_text("")
        case "below a file":
            (tmp_path / "file").write_text("")
            home = tmp_path / "file" / "home"
    return home


@pytest.mark.parametrize("url", [None, "http://127.0.0.1:1"])
def test_what_cannot_be_kept_is_never_said_to_be_kept(unusable: Path, url: str | None) -> None:
    said = run_cli(unusable, "emit", "a.b", env={} if url is None else {"HOLDFAST_URL": url})
    assert (said.code, said.out) == (1, "")
    assert "the event was not accepted: " in said.err or "token cannot be read" in said.err
    assert said.err.count("\n") == 1
    assert "is kept" not in said.err


def test_what_the_disk_does_not_take_is_never_said_to_be_kept(tmp_path: Path) -> None:
    command = f"ulimit -f 0; exec {sys.executable} -m holdfast emit a.b"  # every write to a file fails
    env = {**os.environ, "HOLDFAST_HOME": str(tmp_path / "home")}
    done = subprocess.run(["sh", "-c", command], env=env, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("holdfast: the event was not accepted: ")
    assert done.stderr.count("\n") == 1
    assert list((tmp_path / "home" / "spool").iterdir()) == []


def test_a_home_relative_to_a_folder_that_is_gone_is_named(tmp_path: Path) -> None:
    command = f"cd {tmp_path}; mkdir gone; cd gone; rmdir ../gone; exec {sys.executable} -m holdfast emit a.b"
    env = {**os.environ, "HOLDFAST_HOME": "here"}
    done = subprocess.run(["sh", "-c", command], env=env, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert "which no longer exists" in done.stderr


def test_without_a_daemon_the_spool_keeps_it_until_one_starts(tmp_path: Path) -> None:
    home = tmp_path / "home"
    said = [
        run_cli(home, "emit", "a.b", "--stream", "s", "--property", f"n={n}", "--payload", str(n), "--json")
        for n in range(3)
    ]
    assert [one.code for one in said] == [0, 0, 0]
    assert all(one.json == {"id": one.json["id"], "spooled": True} for one in said)
    assert "holdfast up" in said[0].err
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    with Daemon(home) as daemon:
        page = daemon.wait_for("/api/streams/s/events", lambda answer: len(answer.get("items", ())) == 3)
        assert [event["id"] for event in page["items"]] == [one.json["id"] for one in said]
        assert [event["payload"] for event in page["items"]] == [0, 1, 2]
        assert page["items"][1]["properties"] == {"n": 1}


def test_after_a_kill_the_old_address_leads_to_the_spool_too(tmp_path: Path) -> None:
    with Daemon(tmp_path / "home") as daemon:
        daemon.kill9()
        said = daemon.cli("emit", "a.b", "--json")
        assert (said.code, said.json["spooled"]) == (0, True)
        daemon.start()
        daemon.wait_for(f"/api/events/{said.json['id']}", lambda answer: answer.get("type") == "a.b")


def test_an_answer_that_is_lost_does_not_make_two_events(tmp_path: Path) -> None:
    """The daemon stores the event and dies before it answers: the spooled copy carries the same key."""
    with Daemon(tmp_path / "home") as daemon, socket.create_server(("127.0.0.1", 0)) as between:
        thread = threading.Thread(target=_swallow_the_answer, args=(between, daemon.url))
        thread.start()
        url = f"http://127.0.0.1:{between.getsockname()[1]}"
        said = daemon.cli("emit", "once.only", "--payload", "1", "--json", env={"HOLDFAST_URL": url})
        thread.join()
        assert (said.code, said.json["spooled"]) == (0, True)
        daemon.wait_for("/api/status", lambda answer: answer["spooled"] == 0)
        assert len(daemon.request("GET", "/api/events?type=once.only")[1]["items"]) == 1
        assert daemon.request("GET", "/api/events?type=error.error")[1]["items"] == []


def _swallow_the_answer(between: socket.socket, url: str) -> None:
    """Hand one request on, wait for its answer, and hang up."""
    caller, _ = between.accept()
    host, _, port = url.removeprefix("http://").partition(":")
    with caller, socket.create_connection((host, int(port))) as daemon:
        while not (text := caller.recv(65536)).rstrip().endswith(b"}"):
            daemon.sendall(text)
        daemon.sendall(text)
        assert b"201" in daemon.recv(65536)


def test_something_else_at_the_address_is_not_taken_for_a_daemon(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        thread = threading.Thread(target=_answer_oddly, args=(other,))
        thread.start()
        env = {"HOLDFAST_URL": f"http://127.0.0.1:{other.getsockname()[1]}"}
        assert json.loads(run_cli(tmp_path, "emit", "a.b", "--json", env=env).out)["spooled"] is True
        said = run_cli(tmp_path, "status", env=env)
        thread.join()
    assert said.code == 4
    assert "not a Holdfast daemon" in said.err


def _answer_oddly(other: socket.socket) -> None:
    for _ in range(2):
        caller, _ = other.accept()
        with caller:
            caller.recv(65536)
            caller.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")


def test_an_address_that_is_none_is_refused_without_a_daemon_too(tmp_path: Path) -> None:
    said = run_cli(tmp_path, "emit", "t", "--to", "session:")
    assert said.code != 0
    assert "is not an address" in said.err
    assert list(tmp_path.rglob("*.evt")) == []
