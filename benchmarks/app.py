"""The application of the measured daemon: a handler that reports each call at once."""

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
    with contextlib.suppress(OSError):  # the socket buffer is full: only the first calls matter then
        _speaker.sendto(f"{at_ns} {event.id}".encode(), socket.MSG_DONTWAIT, _listener)
