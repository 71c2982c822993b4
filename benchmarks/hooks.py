"""From the receiver's exit to the session's row, as anybody reads it: alone, and beside a session that makes noise.

Every hook is sent by a receiver in a process of its own, the one that `hooks install` would choose here; an agent waits
for it before it sends the next. A noisy agent of another home, which no daemon keeps, shows what of the difference is
the machine's.
"""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.measure import Book, percentile
from benchmarks.orders import ROOT, Failed
from benchmarks.receiver import daemon, prepare, reap, start
from benchmarks.server import Server
from benchmarks.sizes import Sizes
from holdfast.agents.receiver.program import find_program

PATIENCE_S = 30.0
PAUSE_S = 0.01
LOOK_S = 0.0002
WARM = 20
QUIET = 20
TURNS = 200


class Sessions:
    """Quiet sessions of one home: each turn is a prompt and a stop, each from a receiver of its own."""

    def __init__(self, home: Path) -> None:
        self._env, self._payload = prepare(home), home.parent / "payload"
        self._program = [*find_program(), "--agent", "claude"]
        self._rows = sqlite3.connect(f"file:{home}/holdfast.db?mode=ro", uri=True, isolation_level=None)
        self._number = 0
        self._transcript = str(home.parent / "transcript.jsonl")
        lines = [{"type": kind, "message": {"role": kind, "content": "x" * 500}} for kind in ("user", "assistant")]
        Path(self._transcript).write_text("".join(json.dumps(line) + "\n" for line in lines * TURNS))

    def close(self) -> None:
        self._rows.close()

    def send(self) -> float:
        """One hook; milliseconds from the receiver's exit until its session's row shows it."""
        self._number += 1
        turn, is_stop = divmod(self._number, 2)
        native, text = f"quiet{turn % QUIET}", f"text {self._number}"
        said = {"hook_event_name": "Stop", "last_assistant_message": text} if is_stop else {
            "hook_event_name": "UserPromptSubmit", "prompt": text
        }  # fmt: skip
        about = {"session_id": native, "cwd": "/", "transcript_path": self._transcript}
        self._payload.write_text(json.dumps({**about, **said}))
        reap([start(self._program, self._env, self._payload)])
        exit_ns = time.monotonic_ns()
        column = "last_answer" if is_stop else "last_prompt"
        query = f"SELECT {column} FROM holdfast_sessions WHERE id = ?"
        ends_ns = exit_ns + int(PATIENCE_S * 1e9)
        while self._rows.execute(query, (f"claude-{native}",)).fetchone() != (text,):
            if time.monotonic_ns() > ends_ns:
                raise Failed(f"the row did not show a hook within {PATIENCE_S:g} s")
            time.sleep(LOOK_S)
        return (time.monotonic_ns() - exit_ns) / 1e6


def measure(book: Book, folder: Path, server: Server | None, sizes: Sizes) -> None:
    for _ in range(sizes.times):
        with tempfile.TemporaryDirectory(prefix="hooks-", dir=folder) as name, daemon(Path(name) / "home") as home:
            sessions = Sessions(home)
            try:
                for _ in range(WARM):
                    sessions.send()
                _add(book, "alone", [_send(sessions) for _ in range(sizes.hooks)])
                _add(book, "beside noise elsewhere", _beside_noise(Path(name) / "elsewhere", sessions, sizes.noise))
                _add(book, "beside noise", _beside_noise(home, sessions, sizes.noise))
            finally:
                sessions.close()


def _add(book: Book, name: str, times: list[float]) -> None:
    book.add(f"hooks.{name}.p50", percentile(times, 0.5), "ms")
    book.add(f"hooks.{name}.p99", percentile(times, 0.99), "ms")
    book.add(f"hooks.{name}.count", len(times), "hooks")


def _send(sessions: Sessions) -> float:
    time.sleep(PAUSE_S)
    return sessions.send()


def _beside_noise(home: Path, sessions: Sessions, noise: int) -> list[float]:
    """Hooks of quiet sessions for as long as the noisy one has something to say."""
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    noisy = subprocess.Popen([sys.executable, "-m", "benchmarks.hooks", str(home), str(noise)], env=environment)
    try:
        times = []
        while noisy.poll() is None:
            times.append(_send(sessions))
        if noisy.returncode != 0 or not times:
            raise Failed(f"the noise ended with {noisy.returncode}")
        return times
    finally:
        noisy.kill()
        noisy.wait(PATIENCE_S)


def make_noise(home: Path, count: int) -> None:
    """Tools at work in one session, one after another."""
    env, program, payload = prepare(home), [*find_program(), "--agent", "claude"], home.parent / "noise"
    for number in range(count):
        name, tool = ("PreToolUse", "PostToolUse")[number % 2], ("Bash", "Read", "Edit")[number // 2 % 3]
        said = {"session_id": "noisy", "cwd": "/", "hook_event_name": name, "tool_name": tool, "number": number}
        payload.write_text(json.dumps(said))
        reap([start(program, env, payload)])


if __name__ == "__main__":
    make_noise(Path(sys.argv[1]), int(sys.argv[2]))
