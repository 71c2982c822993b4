"""Processes of this user: does an agent CLI run with a certain session?

Hooks do not always tell. A CLI that was started to resume a session may report it only with its first prompt, and the
end of one process says nothing about another one with the same session. The command that resumes a session names it.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

LIST_S = 5.0
PROGRAM_WORDS = 4
OUTPUT_MAX = 4 * 1024 * 1024

_PROC = Path("/proc")


def is_resumed(program: str, native_id: str) -> bool:
    """Whether the CLI runs with the session's id among its arguments. True also if that cannot be known."""
    try:
        return any(_is_of(program, words) and native_id in words for words in _commands())
    except (OSError, subprocess.SubprocessError):
        return True


def _is_of(program: str, words: list[str]) -> bool:
    """Whether a command runs the program, perhaps by an interpreter with its options."""
    return any(os.path.basename(word).partition(".")[0] == program for word in words[:PROGRAM_WORDS])


def _commands() -> Iterator[list[str]]:
    """The words of each command that runs as this user, except the process that asks."""
    if not (_PROC / "self").exists():
        yield from _listed()
        return
    for folder in _PROC.iterdir():
        if not folder.name.isdigit() or int(folder.name) == os.getpid():
            continue
        try:
            if folder.stat().st_uid == os.geteuid():
                yield (folder / "cmdline").read_bytes().decode("utf-8", "replace").split("\0")
        except OSError:
            continue  # it has ended


def _listed() -> Iterator[list[str]]:
    """The same by `ps`, where there is no `/proc`."""
    done = subprocess.run(
        ["ps", "-x", "-o", "command="], capture_output=True, timeout=LIST_S, check=True, stdin=subprocess.DEVNULL
    )
    for line in done.stdout[:OUTPUT_MAX].decode("utf-8", "replace").splitlines():
        yield line.split()
