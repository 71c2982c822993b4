"""The hook receiver: how long an agent waits for it, compared with a bare start of the interpreter and /bin/true.

The programs alternate, so that other load on the machine affects all alike. Every record is accounted for.
"""

from __future__ import annotations

import http.client
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from benchmarks.measure import Results, percentile
from benchmarks.orders import ROOT, Failed
from benchmarks.server import Server
from benchmarks.sizes import Sizes
from holdfast.agents.receiver import receiver
from holdfast.agents.receiver.program import find_program
from holdfast.ingress.importer import spool_depth

READY_S = 60.0
PAYLOAD = b'{"session_id": "bench", "cwd": "/", "hook_event_name": "Stop", "last_assistant_message": "%s"}' % (
    b"x" * 900
)
WORDS = ["--agent", "claude", "Stop"]
BARE = [sys.executable, "-I", "-S", "-c", "pass"]
PYTHON = [sys.executable, "-I", "-S", receiver.__file__, *WORDS]
TRUE = ["/bin/true" if os.path.exists("/bin/true") else "/usr/bin/true"]

Programs = Mapping[str, Sequence[str]]


def measure(results: Results, folder: Path, server: Server | None, sizes: Sizes) -> None:
    """One at a time with the daemon down, up and busy; then many at once."""
    programs = {"true": TRUE, "bare": BARE, "python": PYTHON}
    fast = [*find_program(), *WORDS]
    if fast != PYTHON:
        programs["fast"] = fast
    else:
        results.miss("receiver.fast", "the fast path is not available on this machine")
    with tempfile.TemporaryDirectory(prefix="receiver-", dir=folder) as name:
        homes = Path(name)
        (homes / "payload").write_bytes(PAYLOAD)
        for number in range(sizes.times):
            _one_by_one(results, "down", homes / f"down{number}", programs, sizes.starts)
            with daemon(homes / f"up{number}") as home:
                _one_by_one(results, "up", home, programs, sizes.starts)
                with _busy(home):
                    _one_by_one(results, "busy", home, programs, sizes.starts)
            _account_stored(home, 2 * sizes.starts * (len(programs) - 2))
            _crowds(results, homes / f"crowd{number}", programs, sizes)


def _one_by_one(results: Results, state: str, home: Path, programs: Programs, starts: int) -> None:
    env, payload = prepare(home), home.parent / "payload"
    times: dict[str, list[float]] = {name: [] for name in programs}
    for _ in range(starts):
        for name, command in programs.items():
            began = time.perf_counter()
            reap([start(command, env, payload)])
            times[name].append((time.perf_counter() - began) * 1000)
    if state == "down":
        _account(home, starts * (len(programs) - 2))
    for name, values in times.items():
        results.add(f"receiver.{state}.{name}.p50", percentile(values, 0.5), "ms")
        results.add(f"receiver.{state}.{name}.p99", percentile(values, 0.99), "ms")


def _crowds(results: Results, home: Path, programs: Programs, sizes: Sizes) -> None:
    env, payload = prepare(home), home.parent / "payload"
    for _ in range(sizes.crowds):
        for name, command in programs.items():
            began = time.perf_counter()
            reap([start(command, env, payload) for _ in range(sizes.crowd)])
            results.add(f"receiver.crowd.{name}", (time.perf_counter() - began) * 1000, "ms")
    _account(home, sizes.crowd * sizes.crowds * (len(programs) - 2))


def start(command: Sequence[str], env: Mapping[str, str], payload: Path) -> int:
    stdin = [(os.POSIX_SPAWN_OPEN, 0, payload, os.O_RDONLY, 0)]
    return os.posix_spawn(command[0], command, env, file_actions=stdin)


def reap(children: Sequence[int]) -> None:
    for child in children:
        _, status = os.waitpid(child, 0)
        if status != 0:
            raise Failed(f"a program ended with {status}")


def prepare(home: Path) -> dict[str, str]:
    """Create the home if needed. Returns the environment for it."""
    (home / "spool").mkdir(mode=0o700, parents=True, exist_ok=True)
    home.chmod(0o700)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("HOLDFAST_", "TMUX"))}
    return {**kept, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}", "HOLDFAST_HOME": str(home)}


def _account(home: Path, count: int) -> None:
    """Check that no record was lost."""
    found = spool_depth(home / "spool")
    if found != count:
        raise Failed(f"{found} records were kept instead of {count}")


def _account_stored(home: Path, count: int) -> None:
    with closing(sqlite3.connect(home / "holdfast.db")) as store:
        ((found,),) = store.execute("SELECT count(*) FROM holdfast_events WHERE source = 'hook'")
    if found != count:
        raise Failed(f"{found} hooks were stored instead of {count}")


@contextmanager
def daemon(home: Path) -> Iterator[Path]:
    """A daemon in this home, stopped after it has imported everything."""
    command = [sys.executable, "-m", "holdfast", "up", "--port", "0"]
    env = prepare(home)
    with (home.parent / f"{home.name}.log").open("ab") as log:
        child = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        _wait((home / "address").exists, child, "the daemon did not start")
        yield home
        _wait(lambda: not spool_depth(home / "spool"), child, "the spool was not imported")
    finally:
        child.send_signal(signal.SIGTERM)
        child.wait(READY_S)


def _wait(done: Callable[[], bool], child: subprocess.Popen[bytes], why: str) -> None:
    ends = time.monotonic() + READY_S
    while not done():
        if child.poll() is not None or time.monotonic() > ends:
            raise Failed(why)
        time.sleep(0.05)


@contextmanager
def _busy(home: Path) -> Iterator[None]:
    """Keep the daemon busy by publishing one event after another."""
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
