"""The hook receiver: what an agent waits for, beside a bare start of the same interpreter and beside /bin/true.

python -m benchmarks.receiver

The programs take turns, so that whatever else the machine does falls on each alike. Every record is accounted for.
"""

from __future__ import annotations

import http.client
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks.measure import Figure, percentile, repeat
from holdfast.ingress.hook import receiver
from holdfast.ingress.hook.program import find_program
from holdfast.ingress.importer import spool_depth

STARTS = 200
CROWD = 100
CROWDS = 5
READY_S = 60.0
PYTHON_MAX, FAST_MAX, TAIL_MAX, CROWD_MAX = 1.3, 6.0, 3.0, 1.5

PAYLOAD = b'{"session_id": "bench", "cwd": "/", "hook_event_name": "Stop", "last_assistant_message": "%s"}' % (
    b"x" * 900
)
WORDS = ["--agent", "claude", "Stop"]
BARE = [sys.executable, "-I", "-S", "-c", "pass"]
PYTHON = [sys.executable, "-I", "-S", receiver.__file__, *WORDS]
TRUE = ["/bin/true" if os.path.exists("/bin/true") else "/usr/bin/true"]


def main() -> None:
    fast = [*find_program(), *WORDS]
    programs = {"true": TRUE, "bare interpreter": BARE, "receiver": PYTHON}
    if fast != PYTHON:
        programs["fast path"] = fast
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as name:
        folder = Path(name)
        (folder / "payload").write_bytes(PAYLOAD)
        print(f"One at a time, {STARTS} starts of each:")
        one_by_one("daemon down", folder / "down", programs)
        with daemon(folder / "up"):
            one_by_one("daemon up", folder / "up", programs)
            with busy(folder / "up"):
                one_by_one("daemon busy", folder / "up", programs)
        print(f"{CROWD} at once:")
        crowds(folder / "crowd", programs)


def one_by_one(state: str, home: Path, programs: Mapping[str, Sequence[str]]) -> None:
    env, payload = prepare(home), home.parent / "payload"
    times: dict[str, list[float]] = {name: [] for name in programs}
    for _ in range(STARTS):
        for name, command in programs.items():
            began = time.perf_counter()
            reap([start(command, env, payload)])
            times[name].append((time.perf_counter() - began) * 1000)
    if state == "daemon down":
        account(home, STARTS * (len(programs) - 2))
    p50 = {name: percentile(values, 0.5) for name, values in times.items()}
    for name, values in times.items():
        print(Figure(f"{name}, {state}", p50[name], min(values), max(values), "ms").line(), flush=True)
    ratio("receiver / bare interpreter, p50", p50["receiver"] / p50["bare interpreter"], PYTHON_MAX)
    if "fast path" in programs:
        ratio("fast path / true, p50", p50["fast path"] / p50["true"], FAST_MAX)
    for name in times:
        limit = TAIL_MAX if name in ("receiver", "fast path") else None
        ratio(f"{name}, p99 / p50", percentile(times[name], 0.99) / p50[name], limit)


def crowds(home: Path, programs: Mapping[str, Sequence[str]]) -> None:
    env, payload = prepare(home), home.parent / "payload"

    def crowd(command: Sequence[str]) -> float:
        began = time.perf_counter()
        reap([start(command, env, payload) for _ in range(CROWD)])
        return (time.perf_counter() - began) * 1000

    figures = {name: repeat(name, lambda c=command: crowd(c), CROWDS, "ms") for name, command in programs.items()}
    account(home, CROWD * CROWDS * (len(programs) - 2))
    for figure in figures.values():
        print(figure.line(), flush=True)
    ratio("receivers / bare interpreters", figures["receiver"].median / figures["bare interpreter"].median, CROWD_MAX)


def start(command: Sequence[str], env: Mapping[str, str], payload: Path) -> int:
    stdin = [(os.POSIX_SPAWN_OPEN, 0, payload, os.O_RDONLY, 0)]
    return os.posix_spawn(command[0], command, env, file_actions=stdin)


def reap(children: list[int]) -> None:
    for child in children:
        _, status = os.waitpid(child, 0)
        assert status == 0, f"it ended with {status}"


def prepare(home: Path) -> dict[str, str]:
    (home / "spool").mkdir(mode=0o700, parents=True, exist_ok=True)
    home.chmod(0o700)
    return {**os.environ, "HOLDFAST_HOME": str(home)}


def account(home: Path, count: int) -> None:
    """None was lost."""
    assert spool_depth(home / "spool") == count, f"{spool_depth(home / 'spool')} records instead of {count}"


@contextmanager
def daemon(home: Path) -> Iterator[None]:
    env = prepare(home)
    child = subprocess.Popen(
        [sys.executable, "-m", "holdfast", "up", "--port", "0"],
        env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        give_up = time.monotonic() + READY_S
        while not (home / "address").exists():
            assert child.poll() is None, "the daemon ended"
            assert time.monotonic() < give_up, "the daemon did not come up"
            time.sleep(0.05)
        yield
        while spool_depth(home / "spool"):
            assert time.monotonic() < give_up + READY_S, "the spool was not imported"
            time.sleep(0.05)
    finally:
        child.send_signal(signal.SIGTERM)
        child.wait(READY_S)


@contextmanager
def busy(home: Path) -> Iterator[None]:
    """Somebody else keeps the daemon at work, one event after the other."""
    stopping = threading.Event()
    host = (home / "address").read_text().strip().removeprefix("http://")
    headers = {"Authorization": f"Bearer {(home / 'token').read_text().strip()}", "Content-Type": "application/json"}

    def publish() -> None:
        connection = http.client.HTTPConnection(host, timeout=READY_S)
        while not stopping.is_set():
            connection.request("POST", "/api/events", b'{"type": "bench.event"}', headers)
            connection.getresponse().read()
        connection.close()

    publisher = threading.Thread(target=publish)
    publisher.start()
    try:
        yield
    finally:
        stopping.set()
        publisher.join(READY_S)


def ratio(name: str, value: float, limit: float | None) -> None:
    """Without a limit it stands beside the others, to show how quiet the machine was."""
    judged = "" if limit is None else f"(wanted: at most {limit:g}){'' if value <= limit else '  MISSED'}"
    print(f"  = {name:<46} {value:>12.2f} x   {judged}".rstrip())


if __name__ == "__main__":
    main()
