"""From commit to the handler's start, under light load, for each way in and on both stores; and the first delivery
after a start with a backlog."""

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
from benchmarks.measure import Book, percentile
from benchmarks.orders import Failed, ask
from benchmarks.server import Server
from benchmarks.sizes import Sizes
from holdfast import Outbox

PAUSE_S = 0.02
WARM = 20
PAYLOAD = {"text": "x" * 980}


@contextmanager
def fresh(store: str, folder: Path, server: Server | None, name: str = "bench") -> Iterator[str]:
    """A new place for a store of this kind; stores that stand side by side have different names."""
    if store == "sqlite":
        path = folder / f"{name}-{time.monotonic_ns()}.db"
        try:
            yield f"sqlite:///{path}"
        finally:
            for left in folder.glob(f"{path.name}*"):
                left.unlink()
    else:
        if server is None:
            raise Failed("there is no PostgreSQL server")
        with server.database(name) as url:
            yield url


def measure(book: Book, folder: Path, server: Server | None, sizes: Sizes) -> None:
    for _ in range(sizes.times):
        for store in ("sqlite", "postgres"):
            for way, take in (("in process", _in_process), ("REST", _rest), ("another process", _elsewhere)):
                name = f"latency.{store}.{way}"
                try:
                    with fresh(store, folder, server) as url:
                        times = take(folder, url, sizes.latency)
                    book.add(f"{name}.p50", percentile(times, 0.5), "ms")
                    book.add(f"{name}.p99", percentile(times, 0.99), "ms")
                except (Failed, OSError) as error:
                    book.miss(name, str(error))


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
        connection = _connect(url, outbox)
        stack.callback(connection.close)

        def publish() -> str:
            published = outbox.publish(connection, "bench.event", PAYLOAD)
            connection.commit()
            return published.id

        return _times(daemon, publish, count)


def _connect(url: str, outbox: Outbox) -> Any:
    if url.startswith("sqlite"):
        connection = sqlite3.connect(url.removeprefix("sqlite:///"))
        outbox.prepare(connection)
        return connection
    import psycopg

    return psycopg.connect(url)


def _times(daemon: Daemon, publish: Callable[[], str], count: int, *, from_call: bool = False) -> list[float]:
    """Milliseconds from the commit's return in this process to the handler's call in the daemon.

    `from_call`: from before the publish. Over REST the handler is often called before the answer has arrived, so that
    the moment of the commit cannot be seen from here; the time from the request is more than what is asked for.
    """
    times = []
    for number in range(WARM + count):
        called_ns = time.monotonic_ns()
        id = publish()
        began_ns = called_ns if from_call else time.monotonic_ns()
        at_ns, heard = daemon.hear()
        if heard != id:
            raise Failed(f"event {id} was published and the handler was called with {heard}")
        if number >= WARM:
            times.append(max(0, at_ns - began_ns) / 1e6)
        time.sleep(PAUSE_S)
    return times


def measure_restart(book: Book, folder: Path, server: Server | None, sizes: Sizes) -> None:
    """From the start of the process to the first delivery, with a backlog, after a clean stop and after a kill."""
    for store in ("sqlite", "postgres"):
        try:
            with fresh(store, folder, server) as url, Daemon(folder, url) as daemon:
                daemon.start()
                daemon.wait_ready()  # makes the tables, and the handler's queue
                daemon.stop()
                for number in range(2 * sizes.times):
                    fill(url, sizes.restart, prepared=True)
                    daemon.forget()
                    began_ns = daemon.start()
                    first_ns = daemon.hear()[0]
                    book.add(f"restart.{store}", (first_ns - began_ns) / 1e9, "s")
                    daemon.wait_ready()
                    daemon.kill() if number % 2 == 0 else daemon.stop()
        except (Failed, OSError) as error:
            book.miss(f"restart.{store}", str(error))
