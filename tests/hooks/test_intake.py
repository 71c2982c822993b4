"""The parts of the receiver: they agree with the rest of the package, which the receiver must not import."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import home as homes
from holdfast import ports
from holdfast.agents.receiver import intake, receiver
from holdfast.agents.receiver.fallback_folders import recent_failures
from holdfast.ingress.spool import RECORD_MAX, position_of
from receiving import Receiver, silent


@given(st.text())
def test_a_quoted_text_is_json_in_ascii(text: str) -> None:
    quoted = intake.quote(text)
    assert quoted.isascii()
    assert json.loads(quoted) == text


@given(st.text(alphabet=st.characters()))
def test_half_a_character_becomes_the_replacement_character(text: str) -> None:
    """What Python makes of bytes that are no text must not reach a store that refuses it."""
    decoded = json.loads(intake.quote(text))
    assert decoded == "".join("\ufffd" if "\ud800" <= letter <= "\udfff" else letter for letter in text)
    decoded.encode()


@given(st.binary())
def test_a_path_that_is_not_text_can_be_quoted(path: bytes) -> None:
    assert json.loads(intake.quote(path)) == path.decode("utf-8", "replace")


def test_the_longest_header_and_body_fit_a_record() -> None:
    longest = len(intake.quote("\x01" * 9000))
    assert longest == 6 * intake.TEXT_MAX + 2
    assert intake.BODY_MAX + 5 * longest + 1000 < RECORD_MAX


SETTINGS = [
    {},
    {"HOLDFAST_HOME": "/srv/h"},
    {"HOLDFAST_HOME": "/srv//h/./x/"},
    {"HOLDFAST_HOME": "rel/ative"},
    {"HOLDFAST_HOME": "~"},
    {"HOLDFAST_HOME": "~/h"},
    {"HOLDFAST_HOME": "~root/h"},
    {"HOLDFAST_HOME": "~nobody-of-this-name/h"},
    {"HOLDFAST_HOME": "", "HOME": "/home/x/"},
    {"HOLDFAST_HOME": "~", "HOME": "/"},
    {"HOLDFAST_HOME": "~/h", "HOME": ""},
    {"HOME": "/home/x"},
    {"HOME": "/"},
    {"HOME": ""},
    {"HOME": "/home/x", "XDG_STATE_HOME": "/state"},
    {"HOME": "/home/x", "XDG_STATE_HOME": ""},
    {"HOME": "/home/ü x"},
]


@pytest.mark.parametrize("platform", ["linux", "darwin"])
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_the_home_is_the_one_every_other_command_finds(settings, platform, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOLDFAST_HOME", "HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "platform", platform)
    found = intake.find_root({os.fsencode(k): os.fsencode(v) for k, v in settings.items()}, platform)
    try:
        expected = homes.find_home().root
    except RuntimeError:
        assert found is None
        return
    assert found is not None
    assert Path(os.fsdecode(found)).absolute() == expected
    assert intake._key(found) == intake._key(os.fsencode(expected))


def test_a_user_without_a_home_folder_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intake.posix, "getuid", lambda: 4_000_000_000)
    assert intake.find_root({}, "linux") is None


def test_two_homes_never_share_a_fallback_folder() -> None:
    homes = [b"/a/b", b"/a%2Fb", b"/a%252Fb", b"/a", b"/", b"/unknown"]
    assert len({intake._key(home) for home in homes}) == len(homes)
    assert intake._key(None) not in {intake._key(home) for home in homes[:-1]}


def test_a_home_in_a_deleted_folder_counts_as_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone() -> bytes:
        raise FileNotFoundError

    monkeypatch.setattr(intake.posix, "getcwdb", gone)
    assert intake._key(b"relative") == intake._key(None)
    assert intake._key(b"/absolute") != intake._key(None)


def test_the_importer_understands_the_file_name(monkeypatch: pytest.MonkeyPatch) -> None:
    before_ns = ports.boot_ns()
    place = position_of(intake.name_now())
    assert place is not None
    assert before_ns < place.since_boot_ns < ports.boot_ns()
    assert place.boot == ports.SystemClock().boot_id[:16].lower()


def test_without_a_boot_id_the_receiver_and_the_importer_use_the_same_name(monkeypatch) -> None:
    def missing(*_: object, **__: object) -> int:
        raise FileNotFoundError

    monkeypatch.setattr(intake.posix, "open", missing)
    monkeypatch.setattr(ports.Path, "read_text", missing)
    monkeypatch.setattr(intake.time, "time", lambda: 1_800_000_000.0)
    monkeypatch.setattr(intake.time, "clock_gettime_ns", lambda clock: 12_345_000_000_000)
    assert intake.boot_id() == ports._boot_id.__wrapped__() == "boot179998766"


def loaded(*command: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-I", "-S", *command], input=b"{}", capture_output=True, timeout=60
    )
    return {line.rpartition(b"|")[2].strip().decode() for line in done.stderr.splitlines()[1:]}


def test_it_imports_no_more_than_a_bare_interpreter_and_a_socket(tmp_path: Path) -> None:
    words = (receiver.__file__, "--agent", "claude", "--home", str(tmp_path))
    bare = loaded("-c", "pass")
    assert "encodings.utf_8" in bare
    assert loaded(*words) - bare == set()
    (tmp_path / "holdfast.sock").touch()
    assert loaded(*words) - bare == {"_socket"}


def test_waking_never_waits_for_a_daemon_that_reads_nothing(tmp_path: Path) -> None:
    listener, filler = (socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) for _ in range(2))
    with listener, filler:
        path = os.fsencode(tmp_path / "s")
        listener.bind(path)
        filler.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while filler.sendto(b"spool", path):
                pass
        poking = threading.Thread(target=intake.wake, args=(path,), daemon=True)
        poking.start()
        poking.join(10)
        assert not poking.is_alive()


@pytest.mark.parametrize("trap", ["link", "open", "file"])
def test_an_unsafe_file_in_place_of_the_fallback_folder_is_not_used(tmp_path: Path, trap: str) -> None:
    parent, victim = tmp_path / "holdfast-1", tmp_path / "victim"
    victim.mkdir(mode=0o700)
    if trap == "link":
        parent.symlink_to(victim)
    elif trap == "open":
        parent.mkdir()
        parent.chmod(0o770)
    else:
        parent.write_text("")
    with pytest.raises(OSError):
        intake._open_fallback(os.fsencode(parent), b"key")
    assert list(victim.iterdir()) == []
    if trap == "open":
        assert list(parent.iterdir()) == []


def test_an_unsafe_file_inside_the_fallback_folder_is_not_used(tmp_path: Path) -> None:
    parent, victim = tmp_path / "holdfast-1", tmp_path / "victim"
    victim.mkdir()
    parent.mkdir(mode=0o700)
    (parent / "key").symlink_to(victim)
    with pytest.raises(OSError):
        intake._open_fallback(os.fsencode(parent), b"key")


def test_a_folder_of_another_user_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "holdfast-1").mkdir(mode=0o700)
    uid = os.geteuid()
    monkeypatch.setattr(intake.posix, "geteuid", lambda: uid + 1)
    with pytest.raises(PermissionError):
        intake._open_fallback(os.fsencode(tmp_path / "holdfast-1"), b"key")


SLOW = """
import os, posix, sys, time
from holdfast.agents.receiver import intake
sync, calls = posix.fsync, []
def fsync(file):
    calls.append(file)
    if len(calls) == 1:
        time.sleep(60)
    sync(file)
posix.fsync, intake.WRITE_S = fsync, 0.2
intake.keep(os.fsencode(sys.argv[1]), intake.name_now(), b'{"v":1,"kind":"hook"}\\nx', '"agent":"a","event":null')
"""


def test_a_disk_that_does_not_answer_is_replaced_by_a_fallback_folder(tmp_path: Path) -> None:
    made = Receiver(tmp_path)
    done = subprocess.run([sys.executable, "-c", SLOW, str(tmp_path)], capture_output=True, timeout=50)
    kept = made.kept_elsewhere()
    made.clean()
    assert silent(done)
    assert [body for _, body in kept] == [b"x"]
    assert made.records() == []
    (message,) = recent_failures(tmp_path, 0)
    assert "the disk does not respond" in message
