"""Many receivers at once, and receivers that are killed: no record is lost or incomplete, and the order is kept."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import threading
from pathlib import Path

import pytest

from holdfast.agents.receiver.fallback_folders import recent_failures
from holdfast.ingress.spool import position_of
from holdfast.ports import SystemClock, boot_ns
from receiving import PYTHON, Receiver

CROWD = 100


def body_of(number: int) -> bytes:
    return b'{"number": %d, "text": "%s"}' % (number, b"x" * (number * 997 % 90_000))


def test_a_hundred_receivers_at_once_lose_nothing_and_each_file_name_is_a_time_of_its_run(receiver: Receiver) -> None:
    """A moment of its life: so one that ended before another began has the earlier name. They make the home, too."""
    shutil.rmtree(receiver.home)
    lives: dict[int, tuple[int, int]] = {}
    gate = threading.Barrier(CROWD)

    def live(number: int) -> None:
        gate.wait()
        began_ns = boot_ns()
        child = receiver.start("--agent", "claude", "Stop")
        assert child.communicate(body_of(number)) == (b"", b"")
        assert child.returncode == 0
        lives[child.pid] = (began_ns, boot_ns())

    crowd = [threading.Thread(target=live, args=(number,)) for number in range(CROWD)]
    for one in crowd:
        one.start()
    for one in crowd:
        one.join(120)
    assert len(lives) == CROWD
    records = receiver.records()
    assert sorted(body for _, body in records) == sorted(map(body_of, range(CROWD)))
    for name, (header, _) in zip(receiver.names(), records, strict=True):
        place = position_of(name)
        assert place is not None
        assert place.boot == SystemClock().boot_id[:16].lower()
        began_ns, ended_ns = lives[header["pid"]]
        assert began_ns < place.since_boot_ns < ended_ns
    assert len(os.listdir(receiver.home / "spool")) == CROWD


def test_a_kill_at_any_moment_leaves_a_whole_record_or_none(receiver: Receiver) -> None:
    chance = random.Random(7)
    body = chance.randbytes(400_000)
    ends = [0, 0]
    for _ in range(80):
        child = receiver.start("--agent", "claude", "Stop")
        writer = threading.Timer(0, child.communicate, (body,))
        writer.start()
        try:
            child.wait(chance.uniform(0.005, 0.06))
        except subprocess.TimeoutExpired:
            child.kill()
        writer.join(30)
        ends[child.wait(30) == 0] += 1
        assert all(kept == body for _, kept in receiver.records())
        assert len(receiver.records()) >= ends[True]
    assert all(position_of(name) or position_of(name[1:]) for name in os.listdir(receiver.home / "spool"))


STEPS = [("fsync", 1, 0), ("renameat,renameat2,rename", 1, 0), ("fsync", 2, 1)]


@pytest.mark.parametrize(("call", "when", "visible"), STEPS)
def test_a_kill_at_each_step_leaves_a_whole_record_or_none(
    receiver: Receiver, tmp_path: Path, call: str, when: int, visible: int
) -> None:
    if shutil.which("strace") is None:
        pytest.skip("there is no strace here")
    trace = tmp_path / "trace"
    receiver.command = [
        "strace", "-qq", "-o", str(trace), "-e", f"trace={call}", "-e", f"inject={call}:signal=KILL:when={when}",
        *receiver.command,
    ]  # fmt: skip
    done = receiver("--agent", "claude", "Stop", stdin=b"{}")
    if b"PTRACE" in done.stderr or b"ptrace" in done.stderr:
        pytest.skip("processes may not be traced here")
    assert done.returncode == -9
    assert [body for _, body in receiver.records()] == [b"{}"] * visible


@pytest.mark.parametrize(("when", "places"), [("1", 1), ("2", 2), ("1+", 0)])
def test_a_record_that_could_not_be_synced_is_written_again(
    receiver: Receiver, tmp_path: Path, when: str, places: int
) -> None:
    """The second sync is the folder's: the record is there already, and a copy under the same id does no harm."""
    if shutil.which("strace") is None:
        pytest.skip("there is no strace here")
    plain = receiver.command
    receiver.command = [
        "strace", "-qq", "-f", "-o", str(tmp_path / "trace"), "-e", "trace=fsync",
        "-e", f"inject=fsync:error=EIO:when={when}", *plain,
    ]  # fmt: skip
    done = receiver("--agent", "claude", "Stop", stdin=b"{}")
    if done.returncode:
        pytest.skip("processes may not be traced here")
    assert (done.stdout, done.stderr) == (b"", b"")
    kept = receiver.records() + receiver.kept_elsewhere()
    assert [body for _, body in kept] == [b"{}"] * places
    if plain[:3] == PYTHON[:3]:
        assert len({header["id"] for header, _ in kept}) == min(places, 1)
        (message,) = recent_failures(receiver.home, 0)
        assert message.startswith("1 hook event was " + ("kept" if places else "lost"))
        assert "Input/output error" in message
    assert not [name for name in os.listdir(receiver.home / "spool") if name.startswith(".")]


def test_the_steps_are_those_of_the_spool_in_that_order(receiver: Receiver, tmp_path: Path) -> None:
    if shutil.which("strace") is None:
        pytest.skip("there is no strace here")
    trace = tmp_path / "trace"
    traced = "trace=openat,write,fsync,rename,renameat,renameat2,sendto"
    receiver.command = ["strace", "-qq", "-o", str(trace), "-e", traced, *receiver.command]
    done = receiver("--agent", "claude", "Stop", stdin=b"{}")
    if done.returncode:
        pytest.skip("processes may not be traced here")
    lines = trace.read_text().splitlines()
    (made,) = [number for number, line in enumerate(lines) if "O_EXCL" in line]
    assert "O_CREAT" in lines[made]
    assert "0600" in lines[made]
    assert [line.partition("(")[0].replace("at", "").rstrip("2") for line in lines[made + 1 : made + 5]] == [
        "write", "fsync", "rename", "fsync"
    ]  # fmt: skip
