"""Other SQLite queues for Python, with durable settings: enqueue one by one, and drain."""

from __future__ import annotations

import time
from pathlib import Path

from benchmarks.limits import WARM

PAYLOAD = "x" * 1000


def huey_enqueue(folder: Path, count: int) -> float:
    from huey import SqliteHuey

    huey = SqliteHuey(filename=str(folder / f"huey-{time.monotonic_ns()}.db"), fsync=True)
    for _ in range(WARM):
        huey.storage.enqueue(PAYLOAD.encode())
    began = time.perf_counter()
    for _ in range(count):
        huey.storage.enqueue(PAYLOAD.encode())
    return count / (time.perf_counter() - began)


def persist_queue_enqueue(folder: Path, count: int) -> float:
    import persistqueue

    queue = persistqueue.SQLiteAckQueue(str(folder / f"persist-{time.monotonic_ns()}"), auto_commit=True)
    for _ in range(WARM):
        queue.put(PAYLOAD)
    began = time.perf_counter()
    for _ in range(count):
        queue.put(PAYLOAD)
    rate = count / (time.perf_counter() - began)
    queue.close()
    return rate


def persist_queue_drain(folder: Path, count: int) -> float:
    import persistqueue

    queue = persistqueue.SQLiteAckQueue(str(folder / f"persist-{time.monotonic_ns()}"), auto_commit=True)
    for _ in range(count):
        queue.put(PAYLOAD)
    began = time.perf_counter()
    for _ in range(count):
        queue.ack(queue.get())
    rate = count / (time.perf_counter() - began)
    queue.close()
    return rate
