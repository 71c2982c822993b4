"""Measures the same job with each library: events per second, the time from publish to received, CPU and lines of code.

Three processes for each: one places orders, each in a transaction of its own, a worker delivers them, and PostgreSQL.
The receiver is the same nginx for all; it logs when each request arrived. Before the first measurement a receiver in
Python checks the signatures.
"""

from __future__ import annotations

import ast
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import nginx, processes
from benchmarks.daemon import Daemon
from benchmarks.measure import Results, percentile, progress
from benchmarks.orders import CACHE, ROOT, Failed, environment
from benchmarks.server import Server
from benchmarks.sizes import Sizes
from benchmarks.world import LIBRARIES
from benchmarks.world.checking import SECRET, Checker

FOLDER = Path(__file__).parent
ORDERS = "CREATE TABLE orders (id bigint PRIMARY KEY, item text NOT NULL)"
CALLERS = 16
RATE = 100.0
CHECKED = 5
ARRIVE_S = 120.0
QUIET_S = 0.5
RUN_S = 200.0


@dataclass
class Candidate:
    """One library in its own database, with the environment variables its application reads."""

    name: str
    python: str
    folder: Path
    variables: dict[str, str]
    used: int = 0

    def call(self, **order: Any) -> dict[str, Any]:
        """Run its application in one role to the end."""
        process = self._start(order, subprocess.PIPE)
        try:
            out, errors = process.communicate(timeout=RUN_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise Failed(f"{self.name}: {order['role']} did not end within {RUN_S:g} s") from None
        if process.returncode:
            lines = [line for line in errors.decode(errors="replace").splitlines() if line.strip()]
            raise Failed(f"{self.name}: {order['role']} failed: {lines[-1] if lines else process.returncode}")
        answer: dict[str, Any] = json.loads(out.splitlines()[-1])
        return answer

    def place(self, count: int, rate: float | None = None) -> dict[str, Any]:
        first, self.used = self.used, self.used + count
        return self.call(role="place", first=first, count=count, callers=CALLERS, rate=rate)

    @contextlib.contextmanager
    def working(self) -> Iterator[int]:
        """The process id of its worker."""
        if self.name == "holdfast":
            config = (FOLDER / "holdfast.yml").read_text()
            with Daemon(self.folder, self.variables["DATABASE_URL"], config, app=None, env=self.variables) as daemon:
                daemon.start()
                daemon.wait_ready()
                yield daemon.pid
                daemon.stop()
            return
        with (self.folder / f"{self.name}.log").open("ab") as log:
            process = self._start({"role": "work"}, log.fileno())
            try:
                yield process.pid
            finally:
                process.send_signal(signal.SIGTERM)
                try:
                    process.wait(10)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait(10)

    def _start(self, order: dict[str, Any], errors: int) -> subprocess.Popen[bytes]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("HOLDFAST_", "PG", "PYTHON"))}
        ours = {"PYTHONPATH": str(ROOT / "src")} if self.name == "holdfast" else {}
        command = [self.python, str(FOLDER / f"app_{self.name.replace('-', '_')}.py"), json.dumps(order)]
        return subprocess.Popen(
            command, env={**kept, **ours, **self.variables}, cwd=self.folder, stdout=subprocess.PIPE, stderr=errors
        )


def measure(results: Results, folder: Path, server: Server | None, sizes: Sizes) -> None:
    if server is None:
        raise Failed("no PostgreSQL server is running")
    CACHE.mkdir(exist_ok=True)
    pythons = {}
    for name in LIBRARIES:
        try:
            pythons[name] = sys.executable if name == "holdfast" else environment(name)
        except Failed as error:
            results.miss(f"world.{name}", str(error))
    for number in range(sizes.times):
        for name, python in pythons.items():
            if f"world.{name}" in results.missing:
                continue
            try:
                if number == 0:
                    _check(server, name, python, folder)
                _take(results, server, name, python, folder, sizes)
            except (Failed, OSError) as error:
                results.miss(f"world.{name}", str(error))
    for name in pythons:
        results.add(f"world.{name}.lines", lines_of(name), "lines")


@contextlib.contextmanager
def _candidate(server: Server, name: str, python: str, folder: Path, target: str) -> Iterator[Candidate]:
    with server.database("shop") as url:
        server.sql(ORDERS, database="shop")
        made = Candidate(name, python, folder, {"DATABASE_URL": url, "TARGET": target, "SECRET": SECRET})
        made.call(role="setup")
        yield made


def _check(server: Server, name: str, python: str, folder: Path) -> None:
    """Every webhook of the library arrives with a valid signature and the whole order."""
    with Checker() as checker, _candidate(server, name, python, folder, checker.url) as candidate, candidate.working():
        candidate.place(CHECKED)
        checker.expect(CHECKED, ARRIVE_S)
    progress(f"  world.{name}: signatures are valid")


def _take(results: Results, server: Server, name: str, python: str, folder: Path, sizes: Sizes) -> None:
    log = folder / f"received-{time.monotonic_ns()}.log"
    with (
        nginx.running(log) as url,
        _candidate(server, name, python, folder, f"{url}/hook") as candidate,
        candidate.working() as worker,
    ):
        settings = _arrived(log, candidate.place(CHECKED))[1]["settings"]  # warm: every connection is open
        server.sql("ANALYZE", database="shop")
        times, _ = _arrived(log, candidate.place(sizes.world_paced, RATE))
        results.add(f"world.{name}.p50", percentile(times, 0.5), "ms")
        results.add(f"world.{name}.p99", percentile(times, 0.99), "ms")
        count = sizes.count(name, "world")
        before = processes.cpu_s(worker), server.cpu_s()
        _, measured = _arrived(log, candidate.place(count))
        time.sleep(QUIET_S)  # the last ends are stored
        after = processes.cpu_s(worker), server.cpu_s()
        results.add(f"world.{name}.rate", count / measured["took_s"], "/s")
        _add_cpu(results, name, count, measured["cpu_s"], after[0] - before[0], after[1], before[1])
    results.facts.setdefault("world", {})[name] = settings


def _add_cpu(
    results: Results, name: str, count: int, placing: float, working: float, after: float | None, before: float | None
) -> None:
    parts = {"publisher": placing, "worker": working}
    if after is not None and before is not None:
        parts["server"] = after - before
    for part, seconds in parts.items():
        results.add(f"world.{name}.CPU {part}", seconds / count * 1e6, "µs")
    results.add(f"world.{name}.CPU", sum(parts.values()) / count * 1e6, "µs")


def _arrived(log: Path, measured: dict[str, Any]) -> tuple[list[float], dict[str, Any]]:
    """Wait until each placed order has arrived. Returns the milliseconds from its publish to its first arrival."""
    called = dict(measured["placed"])
    ends = time.monotonic() + ARRIVE_S
    while len(found := _received(log, called)) < len(called):
        if time.monotonic() > ends:
            raise Failed(f"{len(found)} of {len(called)} webhooks arrived within {ARRIVE_S:g} s")
        time.sleep(0.05)
    measured["took_s"] = max(found.values()) - min(called.values())
    return [max(0.0, (at - called[id]) * 1000) for id, at in found.items()], measured


def _received(log: Path, called: dict[str, float]) -> dict[str, float]:
    found: dict[str, float] = {}
    for line in log.read_text().splitlines() if log.exists() else ():
        at, _, id = line.partition(" ")
        if id in called:
            found.setdefault(id, float(at))
    return found


def lines_of(name: str) -> int:
    """Lines of user code of one library with its configuration file, without docstrings and the harness."""
    files = [FOLDER / f"app_{name.replace('-', '_')}.py"]
    if name == "holdfast":
        return sum(map(count_lines, files)) + len((FOLDER / "holdfast.yml").read_text().splitlines())
    return sum(map(count_lines, [*files, FOLDER / "webhook.py"]))


def count_lines(path: Path) -> int:
    text = path.read_text()
    docs = ast.parse(text).body[0].end_lineno or 0
    lines = [line.strip() for line in text.splitlines()[docs:]]
    return sum(1 for line in lines if line and not line.startswith("#") and not line.endswith("# harness"))
