"""The receiver stores a payload byte for byte, with the folder and the time."""

from __future__ import annotations

import fcntl
import os
import random
import shutil
import signal
import struct
import subprocess
import termios
import time
from pathlib import Path
from typing import IO

import pytest

from holdfast.agents.receiver.intake import BODY_MAX
from holdfast.ingress.spool import RECORD_MAX
from receiving import PAYLOADS, Receiver, silent

FILES = sorted(PAYLOADS.rglob("*.json"))


def test_every_payload_is_kept_byte_for_byte(receiver: Receiver) -> None:
    """Each after the other: so they also stand in the order in which they were said."""
    assert len(FILES) > 80
    for file in FILES:
        agent, event = file.parent.name, file.name.partition(".")[0]
        if event == "notify":
            assert silent(receiver("--agent", agent, event, os.fsdecode(file.read_bytes())))
        else:
            assert silent(receiver("--agent", agent, event, stdin=file.read_bytes()))
    records = receiver.records()
    assert [body for _, body in records] == [file.read_bytes() for file in FILES]
    assert [(h["agent"], h["event"]) for h, _ in records] == [(f.parent.name, f.name.partition(".")[0]) for f in FILES]
    assert len({header["id"] for header, _ in records}) == len(FILES)


def test_the_header_has_folder_time_and_agent(receiver: Receiver, tmp_path: Path) -> None:
    folder = tmp_path / 'a "folder" – 🙂\n'
    folder.mkdir()
    before_ms = time.time_ns() // 1_000_000
    env = {**receiver.env, "TMUX": "/tmp/tmux-1000/de,fault,4242,7", "TMUX_PANE": "%3"}
    assert silent(receiver("--agent", "claude", "Stop", stdin=b"{}", env=env, cwd=folder))
    ((header, body),) = receiver.records()
    assert before_ms <= header.pop("received_at") <= time.time_ns() // 1_000_000
    assert header.pop("id").startswith("evt_")
    assert header.pop("pid") != header.pop("ppid") == os.getpid()
    assert header == {
        "v": 1, "kind": "hook", "agent": "claude", "event": "Stop", "cwd": str(folder), "pane": "%3",
        "tmux": "/tmp/tmux-1000/de,fault", "tmux_server": 4242, "truncated": None, "cut": None, "via": "stdin",
    }  # fmt: skip
    assert body == b"{}"


def test_only_the_owner_may_read_what_is_kept(receiver: Receiver) -> None:
    shutil.rmtree(receiver.home)
    for umask in (0, 0o777):
        assert silent(receiver("--agent", "claude", stdin=b"{}", umask=umask))
    modes = [path.stat().st_mode & 0o777 for path in (receiver.home, receiver.home / "spool")]
    modes += [(receiver.home / "spool" / name).stat().st_mode & 0o777 for name in receiver.names()]
    assert modes == [0o700, 0o700, 0o600, 0o600]


@pytest.mark.parametrize(
    ("words", "agent", "event", "body", "via"),
    [
        (["--agent", "codex", "notify", '{"a": "ü"}'], "codex", "notify", '{"a": "ü"}'.encode(), "argv"),
        (["--agent", "codex", '{"a": 1}'], "codex", None, b'{"a": 1}', "argv"),
        (["--agent=copilot", "agentStop"], "copilot", "agentStop", b"in", "stdin"),
        (["Stop", "--agent", "claude", "--unheard-of"], "claude", "Stop", b"in", "stdin"),
        (["--agent"], "unknown", None, b"in", "stdin"),
        ([], "unknown", None, b"in", "stdin"),
        (["--agent", "x" * 5000, "é\x01" * 300], "x" * 200, ("é\x01" * 300)[:200], b"in", "stdin"),
    ],
)
def test_no_arguments_lose_an_event(receiver: Receiver, words, agent, event, body, via) -> None:
    assert silent(receiver(*words, stdin=b"in"))
    ((header, kept),) = receiver.records()
    assert (header["agent"], header["event"], kept, header["via"]) == (agent, event, body, via)


def test_bytes_that_are_not_text_are_kept_unchanged(receiver: Receiver) -> None:
    noise = random.Random(1).randbytes(300_000)
    assert silent(receiver("--agent", "claude", stdin=noise))
    raw = b'{"\xff\xfe": "\xed\xa0\x80"}'
    done = subprocess.run([*map(os.fsencode, receiver.command), b"--agent", b"codex", b"notify", raw], env=receiver.env)
    assert done.returncode == 0
    assert [body for _, body in receiver.records()] == [noise, raw]


def test_a_payload_above_the_limit_is_cut_and_marked(receiver: Receiver) -> None:
    for size in (BODY_MAX, BODY_MAX + 1, 30_000_000):
        assert silent(receiver("--agent", "gemini", "AfterTool", stdin=b"x" * size))
    records = receiver.records()
    assert [(h["truncated"], h["cut"], len(body)) for h, body in records] == [
        (None, None, BODY_MAX), (BODY_MAX + 1, "size", BODY_MAX), (30_000_000, "size", BODY_MAX)
    ]  # fmt: skip


def test_the_longest_record_can_be_imported(receiver: Receiver, tmp_path: Path) -> None:
    deep = tmp_path
    for _ in range(12):
        deep = deep / ("🙂" * 60)
        deep.mkdir()
    env = {**receiver.env, "TMUX": "🙂" * 4000, "TMUX_PANE": "\x01" * 9000}
    assert silent(receiver("--agent", "\x01" * 300, "🙂" * 300, stdin=b"x" * (BODY_MAX + 1), env=env, cwd=deep))
    ((header, body),) = receiver.records()
    assert header["cwd"] == str(deep)
    assert len(body) == BODY_MAX < RECORD_MAX


def test_an_endless_input_is_read_for_two_seconds(receiver: Receiver) -> None:
    child = receiver.start("--agent", "claude", "Stop")
    assert child.stdin is not None
    child.stdin.write(b'{"half":')
    child.stdin.flush()
    assert child.wait(30) == 0
    child.communicate()
    ((header, body),) = receiver.records()
    assert (header["truncated"], header["cut"], body) == (8, "time", b'{"half":')


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_receiver_that_gets_a_stop_signal_keeps_what_it_has_read(receiver: Receiver, number: signal.Signals) -> None:
    child = receiver.start("--agent", "claude", "SessionEnd")
    assert child.stdin is not None
    child.stdin.write(b"{}")
    child.stdin.flush()
    while unread(child.stdin):
        time.sleep(0.01)
    child.send_signal(number)
    assert child.wait(30) == 0
    assert child.communicate() == (b"", b"")
    ((header, body),) = receiver.records()
    assert (header["cut"], header["truncated"], body) == ("signal", 2, b"{}")


def unread(pipe: IO[bytes]) -> int:
    """How many bytes wait in a pipe."""
    return struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)))[0]


def test_a_home_argument_takes_precedence_over_the_environment(receiver: Receiver, tmp_path: Path) -> None:
    assert silent(receiver("--agent", "claude", "--home", str(tmp_path / "other"), stdin=b"{}"))
    assert receiver.names() == []
    assert len(Receiver(tmp_path / "other").records()) == 1
