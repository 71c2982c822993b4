"""Eight writers append to the same streams, roll back and commit late: the sink gets every event once, in order."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import sqlite3
import threading
import time

import psycopg
import pytest

from holdfast import Outbox, StoreBusy
from postgres import end_schema, fresh_schema, newest, start
from publishing import MemorySink, PublishHarness

pytest_plugins = ("postgres",)

WRITERS = 8
STREAMS = [f"run:{number}" for number in range(4)]
SHORT, LONG = (3.0, 1.0), (60.0, 30.0)  # seconds of writing, and how late a late transaction commits


class Writer(threading.Thread):
    """Appends until the time is over. Some transactions are rolled back, a few commit late."""

    def __init__(self, number: int, outbox: Outbox, connect, until: float, late_s: float) -> None:
        super().__init__(name=f"writer-{number}")
        self._outbox, self._connect, self._until, self._late_s = outbox, connect, until, late_s
        self._random = random.Random(number)
        self.committed: list[tuple[str, int, str]] = []
        self.late, self.rolled_back = number == 0, 0

    def run(self) -> None:
        connection = self._connect()
        try:
            while time.monotonic() < self._until:
                self._transaction(connection)
        finally:
            connection.close()

    def _transaction(self, connection) -> None:
        appended = []
        try:
            for stream in sorted(self._random.sample(STREAMS, self._random.choice((1, 1, 2)))):
                place = self._outbox.stream(stream).append(connection, "step", {"by": self.name})
                appended.append((stream, place.seq, place.id))
            if self.late:
                self.late = False
                time.sleep(self._late_s)
            if self._random.random() < 0.2:
                connection.rollback()
                self.rolled_back += 1
                return
            connection.commit()
        except (StoreBusy, psycopg.errors.DeadlockDetected):
            connection.rollback()
            return
        self.committed += appended
        time.sleep(self._random.random() / 100)


@pytest.mark.parametrize("times", [SHORT, pytest.param(LONG, marks=pytest.mark.slow)], ids=["short", "long"])
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_no_event_of_eight_writers_is_skipped_or_reordered(kind, times, tmp_path):
    if times == LONG and "HOLDFAST_LONG_TESTS" not in os.environ:
        pytest.skip("60 s for each store; set HOLDFAST_LONG_TESTS to run it")
    server, schema = (None, None) if kind == "sqlite" else (start(newest()), fresh_schema())
    url = f"sqlite:///{tmp_path}/app.db" if server is None else server.url(schema)

    def connect():
        return sqlite3.connect(tmp_path / "app.db", timeout=60) if server is None else psycopg.connect(server.address)

    harness, sink = PublishHarness(url, driver="sqlite3"), MemorySink()
    await harness.start(sink)
    until = time.monotonic() + times[0]
    writers = [Writer(number, Outbox(url), connect, until, times[1]) for number in range(WRITERS)]
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        with contextlib.suppress(StoreBusy):  # a late transaction holds the file's lock; the daemon's loop tries again
            await harness.run()
        await asyncio.sleep(0.005)
    await harness.run()
    committed = sorted(event for writer in writers for event in writer.committed)
    published = sorted((stream, event.seq, event.id) for stream in STREAMS for event in sink.events.get(stream, []))
    assert published == committed
    for stream in STREAMS:
        assert sink.seqs(stream) == list(range(1, len(sink.seqs(stream)) + 1))
    assert len(committed) > WRITERS
    assert sum(writer.rolled_back for writer in writers) > 0
    await harness.close()
    if server is not None:
        await end_schema(server, schema)
