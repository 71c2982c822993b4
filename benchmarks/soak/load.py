"""Publishes events in transactions, from a process of its own, for so many seconds.

python -m benchmarks.soak.load '{"url": "sqlite:///…", "rate": 1000, "seconds": 60}'     (rate 0: without a pause)
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from typing import Any

from benchmarks.latency import connect
from holdfast import Outbox

TURNS = 20  # per second
BATCH = 100
BATCH_MAX = 1000
STREAMS = 1000
STREAMED_EVERY = 10
TEXT = "x" * 980


def publish(url: str, rate: float, seconds: float) -> dict[str, Any]:
    """Every tenth event belongs to one of a thousand streams. A late turn is not made up for: the load stays even."""
    outbox = Outbox(url)
    connection = connect(url, outbox)
    size = min(BATCH_MAX, max(1, round(rate / TURNS))) if rate else BATCH
    published, began = 0, time.monotonic()
    for _ in _turns(size / rate if rate else 0.0, began + seconds):
        outbox.publish_many(connection, [_event(published + number) for number in range(size)])
        connection.commit()
        published += size
    connection.close()
    return {"published": published, "seconds": time.monotonic() - began}


def _turns(every_s: float, ends: float) -> Iterator[None]:
    due = time.monotonic()
    while (begins := max(due, time.monotonic())) < ends:
        time.sleep(max(0.0, begins - time.monotonic()))
        due = begins + every_s
        yield


def _event(number: int) -> dict[str, Any]:
    made: dict[str, Any] = {"type": "soak.event", "payload": {"number": number, "text": TEXT}}
    if number % STREAMED_EVERY == 0:
        made["stream"] = f"soak:{number // STREAMED_EVERY % STREAMS}"
    return made


if __name__ == "__main__":
    order = json.loads(sys.argv[1])
    print(json.dumps(publish(order["url"], float(order["rate"]), float(order["seconds"]))), flush=True)
