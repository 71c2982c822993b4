"""Chooses the receiver to run on this machine: the fastest one that passes a trial."""

from __future__ import annotations

import contextlib
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from holdfast.agents.receiver import receiver
from holdfast.domain.errors import BadInput
from holdfast.ingress.spool import position_of, read_record
from holdfast.ports import SystemClock, boot_ns

PERL = "/usr/bin/perl"
TRIAL_S = 10.0

# System call numbers of fsync, clock_gettime and exit_group; they are stable on Linux.
CALLS = {("Linux", "x86_64"): "74,228,231", ("Linux", "aarch64"): "82,113,94"}


def find_program(python: str = sys.executable) -> list[str]:
    """The command that starts a receiver; `--agent NAME --home FOLDER [EVENT]` are appended to it.

    The fast receiver in Perl is chosen only if it stores an event correctly in a trial, without help from Python.
    """
    slow = [python, "-I", "-S", receiver.__file__]
    _compile(python)
    calls = CALLS.get((platform.system(), platform.machine()))
    if calls is None:
        return slow
    fast = [PERL, "-C0", str(Path(receiver.__file__).with_name("receiver.pl")), calls]
    alone = [*fast, "/nowhere", "/nowhere"]  # no Python to hand over to
    return [*fast, python, receiver.__file__] if try_program(alone) is not None else slow


def _compile(python: str) -> None:
    """Compile the receiver's code, because the receiver never does. In a read-only folder it runs uncompiled."""
    work = str(Path(receiver.__file__).with_name("intake.py"))
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        subprocess.run([python, "-I", "-S", "-m", "py_compile", work], capture_output=True, timeout=TRIAL_S, env={})


def try_program(program: list[str]) -> float | None:
    """The seconds a receiver takes to store an event in a temporary home; None if the record is not correct."""
    with tempfile.TemporaryDirectory(prefix="holdfast-trial-") as home:
        spool = Path(home) / "spool"
        spool.mkdir(mode=0o700)
        body = os.urandom(100_000)
        began_ns, began_ms = boot_ns(), time.time_ns() // 1_000_000
        try:
            done = subprocess.run(
                [*program, "--agent", "trial", "--home", home, "Trial"],
                input=body, capture_output=True, timeout=TRIAL_S, cwd="/", env={},
            )  # fmt: skip
            ended_ns, ended_ms = boot_ns(), time.time_ns() // 1_000_000
            (name,) = os.listdir(spool)
            header, kept = read_record(spool / name)
            mode = (spool / name).stat().st_mode & 0o777
        except (OSError, subprocess.SubprocessError, ValueError, BadInput):
            return None
        position = position_of(name)
    is_correct = (
        (done.returncode, done.stdout, done.stderr, kept, mode) == (0, b"", b"", body, 0o600)
        and position is not None
        and position.boot == SystemClock().boot_id[:16].lower()
        and began_ns < position.since_boot_ns < ended_ns
        and isinstance(received_ms := header.get("received_at"), int)
        and began_ms <= received_ms <= ended_ms
        and (header.get("kind"), header.get("agent"), header.get("event")) == ("hook", "trial", "Trial")
    )
    return (ended_ns - began_ns) / 1e9 if is_correct else None
