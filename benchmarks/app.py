"""The application that the daemon runs while it is measured: a handler that says at once when it was called."""

from __future__ import annotations

import contextlib
import os
import socket
import time

from holdfast import Event, Outbox

outbox = Outbox(os.environ["BENCH_STORE"])
_speaker = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
_listener = os.environ["BENCH_LISTENER"]


@outbox.on("bench.*", name="bench")
async def called(event: Event) -> None:
    at_ns = time.monotonic_ns()
    with contextlib.suppress(OSError):  # its ear is full: then only the first calls are of interest
        _speaker.sendto(f"{at_ns} {event.id}".encode(), socket.MSG_DONTWAIT, _listener)
