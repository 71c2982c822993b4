"""The receiver under faults: it exits with 0, prints nothing, and stores the event if it can."""

from __future__ import annotations

import contextlib
import os
import py_compile
import resource
import shlex
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from holdfast.agents.receiver import receiver as module
from holdfast.agents.receiver.fallback_folders import recent_failures
from receiving import PAYLOADS, PYTHON, Receiver, silent

BODY = (PAYLOADS / "claude" / "Stop.json").read_bytes()
WORDS = ("--agent", "claude", "Stop")


def limited(kind: int, value: int) -> Callable[[], None]:
    return partial(resource.setrlimit, kind, (value, value))


def through(receiver: Receiver, script: str, *, stdin: bytes = BODY) -> subprocess.CompletedProcess[bytes]:
    """Run it by a shell that first makes the world worse."""
    command = ["/bin/sh", "-c", script, "sh", *receiver.command, *WORDS]
    return subprocess.run(command, input=stdin, capture_output=True, env=receiver.env, timeout=60)


@pytest.mark.parametrize(
    ("script", "kept"),
    [
        ('exec "$@" <&-', b""),
        ('exec "$@" <&- >&- 2>&-', b""),
        ('exec "$@" 0> /dev/null', b""),
        ('exec "$@" >&- 2>&-', BODY),
        ('exec "$@" > /dev/full 2> /dev/full', BODY),
        ('mkdir "$HOLDFAST_HOME.d"; cd "$HOLDFAST_HOME.d"; rmdir "$HOLDFAST_HOME.d"; exec "$@"', BODY),
        ("trap '' PIPE TERM; exec \"$@\"", BODY),
        ('ulimit -n 8; exec "$@"', BODY),
        ('LC_ALL=C exec env -u PATH "$@"', BODY),
        ('LC_ALL=POSIX PYTHONHOME=/nowhere PYTHONPATH=/nowhere PYTHONSTARTUP=/nowhere exec "$@"', BODY),
    ],
)
def test_a_bad_environment_does_not_disturb_the_agent(receiver: Receiver, script: str, kept: bytes) -> None:
    assert silent(through(receiver, script))
    ((_, body),) = receiver.records()
    assert body == kept


def _copied(folder: Path) -> tuple[Receiver, Path]:
    """A receiver in a place of its own, and where Python would keep its work compiled."""
    home = folder / "home"
    home.mkdir(mode=0o700)
    for name in ("receiver.py", "intake.py"):
        shutil.copy(Path(module.__file__).with_name(name), folder)
    kept = folder / "__pycache__" / f"intake.{sys.implementation.cache_tag}.pyc"
    return Receiver(home, [*PYTHON[:-1], str(folder / "receiver.py")]), kept


def test_it_never_leaves_a_compiled_file_behind(tmp_path: Path) -> None:
    """Under a limit Python would leave half of one, and every later receiver would fail on it."""
    receiver, compiled = _copied(tmp_path)
    assert silent(receiver(*WORDS, stdin=BODY, preexec_fn=limited(resource.RLIMIT_FSIZE, 4000)))
    assert not compiled.parent.exists()
    assert len(receiver.records()) == 1


def test_half_a_compiled_file_loses_nothing(tmp_path: Path) -> None:
    receiver, compiled = _copied(tmp_path)
    py_compile.compile(str(tmp_path / "intake.py"))
    compiled.write_bytes(compiled.read_bytes()[:2000])
    assert silent(receiver(*WORDS, stdin=BODY))
    ((_, body),) = receiver.records()
    assert body == BODY


def test_a_cut_by_an_error_is_marked(receiver: Receiver) -> None:
    assert silent(through(receiver, 'exec "$@" 0> /dev/null'))
    ((header, _),) = receiver.records()
    assert (header["cut"], header["truncated"]) == ("error", 0)


def home_is_missing_and_cannot_be_made(home: Path) -> None:
    home.rename(home.with_name("moved"))
    home.symlink_to(home.parent / "nowhere")


def home_is_a_file(home: Path) -> None:
    home.rename(home.with_name("moved"))
    home.write_text("")


def home_leads_to_itself(home: Path) -> None:
    home.rename(home.with_name("moved"))
    home.symlink_to(home)


def spool_is_a_file(home: Path) -> None:
    (home / "spool").rmdir()
    (home / "spool").write_text("")


def spool_is_a_pipe(home: Path) -> None:
    (home / "spool").rmdir()
    os.mkfifo(home / "spool")


@pytest.mark.parametrize(
    "ruin",
    [home_is_missing_and_cannot_be_made, home_is_a_file, home_leads_to_itself, spool_is_a_file, spool_is_a_pipe],
)
def test_without_a_spool_the_event_is_kept_in_a_fallback_folder(receiver: Receiver, ruin: Callable) -> None:
    ruin(receiver.home)
    assert silent(receiver(*WORDS, stdin=BODY))
    ((header, body),) = receiver.kept_elsewhere()
    assert (header["agent"], body) == ("claude", BODY)
    (message,) = recent_failures(receiver.home, header["received_at"])
    assert message.startswith("1 hook event was kept in a fallback folder in the last 24 hours")


def test_a_home_with_a_name_too_long_has_a_fallback_folder_too(receiver: Receiver) -> None:
    receiver.home = receiver.home / ("x" * 300)
    receiver.env["HOLDFAST_HOME"] = str(receiver.home)
    assert silent(receiver(*WORDS, stdin=BODY))
    assert [body for _, body in receiver.kept_elsewhere()] == [BODY]
    receiver.clean()


@pytest.mark.parametrize(("limit", "reported"), [(2000, True), (0, False)])
def test_an_event_that_nothing_can_take_is_reported_as_lost(receiver: Receiver, limit: int, reported: bool) -> None:
    """As on a machine where every disk is full: the log takes a line, or not even that."""
    assert silent(receiver(*WORDS, stdin=b"x" * 5000, preexec_fn=limited(resource.RLIMIT_FSIZE, limit)))
    assert receiver.records() == receiver.kept_elsewhere() == []
    assert os.listdir(receiver.home / "spool") == []
    said = recent_failures(receiver.home, 0)
    assert [line.partition(" in the last")[0] for line in said] == (["1 hook event was lost"] if reported else [])


def test_a_missing_folder_is_created(receiver: Receiver) -> None:
    receiver.env["HOLDFAST_HOME"] = f"{receiver.home}//deep/./er/"
    assert silent(receiver(*WORDS, stdin=BODY))
    assert len(Receiver(receiver.home / "deep" / "er").records()) == 1


@pytest.mark.parametrize("variable", ["XDG_STATE_HOME", "HOME"])
def test_without_a_home_variable_the_platforms_folder_is_used(
    receiver: Receiver, variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from holdfast.home import find_home

    assert silent(receiver(*WORDS, stdin=BODY, env={variable: str(tmp_path)}))
    for name in ("HOLDFAST_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable, str(tmp_path))
    assert len(Receiver(find_home().root).records()) == 1


@pytest.mark.parametrize("nobody", ["nothing", "file", "stale", "full"])
def test_a_daemon_that_does_not_listen_is_not_waited_for(receiver: Receiver, nobody: str) -> None:
    path = receiver.home / "holdfast.sock"
    with (
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as filler,
    ):
        if nobody == "file":
            path.write_text("")
        elif nobody != "nothing":
            listener.bind(str(path))
        if nobody == "stale":
            listener.close()
        elif nobody == "full":
            filler.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                while filler.sendto(b"spool", str(path)):
                    pass
        assert silent(receiver(*WORDS, stdin=BODY))
    assert len(receiver.records()) == 1


def test_a_listening_daemon_is_woken_after_the_record_is_stored(receiver: Receiver) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(receiver.home / "holdfast.sock"))
        listener.settimeout(30)
        child = receiver.start(*WORDS)
        assert child.stdin is not None
        child.stdin.close()
        assert listener.recv(64) == b"spool"
        assert len(receiver.records()) == 1
        assert child.wait(30) == 0
        for pipe in (child.stdout, child.stderr):
            assert pipe is not None
            assert pipe.read() == b""
            pipe.close()


def test_a_long_log_is_rotated(receiver: Receiver) -> None:
    spool_is_a_file(receiver.home)
    log = receiver.home / "receiver.log"
    log.write_bytes(b"x" * 300_000)
    for _ in range(2):
        assert silent(receiver(*WORDS, stdin=BODY))
    assert log.stat().st_size < 1000
    assert log.with_name("receiver.log.old").stat().st_size == 300_000
    assert log.stat().st_mode & 0o777 == 0o600
    assert len(receiver.kept_elsewhere()) == 2


def test_a_broken_half_of_the_receiver_is_harmless(tmp_path: Path) -> None:
    receiver, _ = _copied(tmp_path)
    (tmp_path / "intake.py").write_text("syntax error")
    assert silent(receiver(*WORDS, stdin=BODY))


@pytest.mark.parametrize(("ending", "code"), [("", 2), (" 2>/dev/null || :", 0)])
def test_a_missing_receiver_is_harmless_with_the_ending_that_the_docs_name(
    receiver: Receiver, ending: str, code: int
) -> None:
    """Python and Perl themselves end with 2 then, which blocks some agents."""
    page = (Path(__file__).parents[2] / "docs" / "agents" / "receiver.md").read_text(encoding="utf-8")
    assert "`2>/dev/null || :`" in page
    command = [word.replace("receiver/receiver.", "receiver/gone.") for word in receiver.command]
    line = shlex.join([*command, *WORDS]) + ending
    done = subprocess.run(["/bin/sh", "-c", line], input=BODY, capture_output=True, env=receiver.env, timeout=60)
    assert done.returncode == code
    assert (done.stderr == b"") == (code == 0)
