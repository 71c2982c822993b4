"""From the receiver's exit until the session row shows the event: alone, and beside a noisy session.

Every hook runs a receiver in its own process, the one that `hooks install` would choose here; an agent waits for it
before it sends the next. A noisy agent in another home without a daemon shows how much of the difference is due to the
machine.
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

from benchmarks.measure import Results, percentile
from benchmarks.orders import ROOT, Failed
from benchmarks.receiver import daemon, prepare, reap, start
from benchmarks.server import Server
from benchmarks.sizes import Sizes
from holdfast.agents.receiver.program import find_program

TIMEOUT_S = 30.0
PAUSE_S = 0.01
LOOK_S = 0.0002
WARM = 20
QUIET = 20
TURNS = 200


class Sessions:
    """Quiet sessions of one home: each turn is a prompt and a stop, each with its own receiver."""

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
        """Send one hook. Returns the milliseconds from the receiver's exit until the session row shows it."""
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
        ends_ns = exit_ns + int(TIMEOUT_S * 1e9)
        while self._rows.execute(query, (f"claude-{native}",)).fetchone() != (text,):
            if time.monotonic_ns() > ends_ns:
                raise Failed(f"the session row did not show the hook within {TIMEOUT_S:g} s")
            time.sleep(LOOK_S)
        return (time.monotonic_ns() - exit_ns) / 1e6


def measure(results: Results, folder: Path, server: Server | None, sizes: Sizes) -> None:
    for _ in range(sizes.times):
        with tempfile.TemporaryDirectory(prefix="hooks-", dir=folder) as name, daemon(Path(name) / "home") as home:
            sessions = Sessions(home)
            try:
                for _ in range(WARM):
                    sessions.send()
                _add(results, "alone", [_send(sessions) for _ in range(sizes.hooks)])
                _add(results, "beside noise elsewhere", _beside_noise(Path(name) / "elsewhere", sessions, sizes.noise))
                _add(results, "beside noise", _beside_noise(home, sessions, sizes.noise))
            finally:
                sessions.close()


def _add(results: Results, name: str, times: list[float]) -> None:
    results.add(f"hooks.{name}.p50", percentile(times, 0.5), "ms")
    results.add(f"hooks.{name}.p99", percentile(times, 0.99), "ms")
    results.add(f"hooks.{name}.count", len(times), "hooks")


def _send(sessions: Sessions) -> float:
    time.sleep(PAUSE_S)
    return sessions.send()


def _beside_noise(home: Path, sessions: Sessions, noise: int) -> list[float]:
    """Send hooks of quiet sessions until the noisy session ends."""
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    noisy = subprocess.Popen([sys.executable, "-m", "benchmarks.hooks", str(home), str(noise)], env=environment)
    try:
        times = []
        while noisy.poll() is None:
            times.append(_send(sessions))
        if noisy.returncode != 0 or not times:
            raise Failed(f"the noisy process exited with {noisy.returncode}")
        return times
    finally:
        noisy.kill()
        noisy.wait(TIMEOUT_S)


def make_noise(home: Path, count: int) -> None:
    """Send tool events of one session, one after another."""
    env, program, payload = prepare(home), [*find_program(), "--agent", "claude"], home.parent / "noise"
    for number in range(count):
        name, tool = ("PreToolUse", "PostToolUse")[number % 2], ("Bash", "Read", "Edit")[number // 2 % 3]
        said = {"session_id": "noisy", "cwd": "/", "hook_event_name": name, "tool_name": tool, "number": number}
        payload.write_text(json.dumps(said))
        reap([start(program, env, payload)])


if __name__ == "__main__":
    make_noise(Path(sys.argv[1]), int(sys.argv[2]))
