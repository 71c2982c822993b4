"""Latency from commit to handler under light load, for each way to publish and both stores; and the first
delivery after a start with a backlog."""

from __future__ import annotations

import sqlite3
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from benchmarks.daemon import Daemon
from benchmarks.fill import fill
from benchmarks.measure import Results, percentile
from benchmarks.orders import Failed, ask
from benchmarks.server import Server
from benchmarks.sizes import Sizes
from holdfast import Outbox

PAUSE_S = 0.02
WARM = 20
PAYLOAD = {"text": "x" * 980}


@contextmanager
def fresh(store: str, folder: Path, server: Server | None, name: str = "bench") -> Iterator[str]:
    """The URL of a new empty store; stores used at the same time need different names."""
    if store == "sqlite":
        path = folder / f"{name}-{time.monotonic_ns()}.db"
        try:
            yield f"sqlite:///{path}"
        finally:
            for left in folder.glob(f"{path.name}*"):
                left.unlink()
    else:
        if server is None:
            raise Failed("no PostgreSQL server is running")
        with server.database(name) as url:
            yield url


def measure(results: Results, folder: Path, server: Server | None, sizes: Sizes) -> None:
    for _ in range(sizes.times):
        for store in ("sqlite", "postgres"):
            for way, take in (("in process", _in_process), ("REST", _rest), ("another process", _elsewhere)):
                name = f"latency.{store}.{way}"
                try:
                    with fresh(store, folder, server) as url:
                        times = take(folder, url, sizes.latency)
                    results.add(f"{name}.p50", percentile(times, 0.5), "ms")
                    results.add(f"{name}.p99", percentile(times, 0.99), "ms")
                except (Failed, OSError) as error:
                    results.miss(name, str(error))


def _in_process(folder: Path, url: str, count: int) -> list[float]:
    times: list[float] = ask(sys.executable, "holdfast", url=url, work="latency", count=count)["after_commit_ms"]
    return times


def _rest(folder: Path, url: str, count: int) -> list[float]:
    with Daemon(folder, url) as daemon:
        daemon.start()
        daemon.wait_settled()
        rest = daemon.connect()
        try:
            return _times(daemon, lambda: rest.publish("bench.event", PAYLOAD), count, from_call=True)
        finally:
            rest.close()


def _elsewhere(folder: Path, url: str, count: int) -> list[float]:
    outbox = Outbox(url)
    with Daemon(folder, url) as daemon, ExitStack() as stack:
        daemon.start()
        daemon.wait_settled()
        connection = connect(url, outbox)
        stack.callback(connection.close)

        def publish() -> str:
            published = outbox.publish(connection, "bench.event", PAYLOAD)
            connection.commit()
            return published.id

        return _times(daemon, publish, count)


def connect(url: str, outbox: Outbox) -> Any:
    if url.startswith("sqlite"):
        connection = sqlite3.connect(url.removeprefix("sqlite:///"))
        outbox.prepare(connection)
        return connection
    import psycopg

    return psycopg.connect(url)


def _times(daemon: Daemon, publish: Callable[[], str], count: int, *, from_call: bool = False) -> list[float]:
    """Milliseconds from the return of the commit in this process to the handler call in the daemon.

    `from_call`: measured from before the publish. Over REST the handler is often called before the response arrives,
    so the time of the commit is not visible here; the time from the request is an upper bound.
    """
    times = []
    for number in range(WARM + count):
        called_ns = time.monotonic_ns()
        id = publish()
        began_ns = called_ns if from_call else time.monotonic_ns()
        at_ns, heard = daemon.next_call()
        if heard != id:
            raise Failed(f"event {id} was published and the handler was called with {heard}")
        if number >= WARM:
            times.append(max(0, at_ns - began_ns) / 1e6)
        time.sleep(PAUSE_S)
    return times


def measure_restart(results: Results, folder: Path, server: Server | None, sizes: Sizes) -> None:
    """From process start to the first delivery with a backlog, after a clean stop and after a kill."""
    for store in ("sqlite", "postgres"):
        try:
            with fresh(store, folder, server) as url, Daemon(folder, url) as daemon:
                daemon.start()
                daemon.wait_ready()  # creates the tables and the handler's queue
                daemon.stop()
                for number in range(2 * sizes.times):
                    fill(url, sizes.restart, prepared=True)
                    daemon.discard_calls()
                    began_ns = daemon.start()
                    first_ns = daemon.next_call()[0]
                    results.add(f"restart.{store}", (first_ns - began_ns) / 1e9, "s")
                    daemon.wait_ready()
                    daemon.kill() if number % 2 == 0 else daemon.stop()
        except (Failed, OSError) as error:
            results.miss(f"restart.{store}", str(error))
