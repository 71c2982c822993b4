"""Live tails: many clients on one stream, and the time from the append of an event until a client has read it."""

from __future__ import annotations

import asyncio
import json
import re
import resource
import statistics
import time
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from benchmarks.daemon import Daemon
from benchmarks.latency import fresh
from benchmarks.measure import Results
from benchmarks.processes import cpu_s
from benchmarks.server import Server
from benchmarks.sizes import Sizes

CLIENTS = 1000
EVENTS_PER_S = 10
SECONDS = 10.0
QUICK_CLIENTS, QUICK_SECONDS = 20, 1.0
READ = 64 * 1024
STREAM = "run:1"
_SENT = re.compile(rb'"sent":(\d+)')


class Reader(asyncio.Protocol):
    """One client. It notes only how long ago each event that it reads was sent, so that it is not the limit itself."""

    def __init__(self, request: bytes, times_ns: list[int], connected: asyncio.Semaphore) -> None:
        self._request, self._times_ns, self._connected = request, times_ns, connected
        self._first = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        now = time.monotonic_ns()
        if self._first:
            self._first = False
            self._connected.release()
        for sent in _SENT.findall(data):
            self._times_ns.append(now - int(sent))


def measure(results: Results, folder: Path, server: Server | None, sizes: Sizes) -> None:
    quick = sizes.times == 1
    clients, seconds = (QUICK_CLIENTS, QUICK_SECONDS) if quick else (CLIENTS, SECONDS)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with fresh("sqlite", folder, server) as url, Daemon(folder, url, app=None) as daemon:
        daemon.start()
        daemon.wait_settled()
        for _ in range(sizes.times):
            before_s, began = cpu_s(daemon.pid), time.monotonic()
            times_ms = asyncio.run(_follow(daemon, clients, seconds))
            used = 100 * (cpu_s(daemon.pid) - before_s) / (time.monotonic() - began)
            found = statistics.quantiles(times_ms, n=100)
            results.add(f"tails.{clients}.p50", found[49], "ms")
            results.add(f"tails.{clients}.p99", found[98], "ms")
            results.add(f"tails.{clients}.processor", used, "%")


async def _follow(daemon: Daemon, clients: int, seconds: float) -> list[float]:
    """The milliseconds from each append to each client."""
    target = urlsplit(daemon.url)
    token = (daemon.home / "token").read_text().strip()
    head = f"Host: {target.netloc}\r\nAuthorization: Bearer {token}\r\n"
    stream = f"{STREAM}:{time.monotonic_ns()}"
    request = f"GET /api/streams/{stream}/tail?wait=true HTTP/1.1\r\n{head}\r\n".encode()
    times_ns: list[int] = []
    connected, loop = asyncio.Semaphore(0), asyncio.get_running_loop()
    transports = []
    for _ in range(clients):
        transport, _protocol = await loop.create_connection(
            lambda: Reader(request, times_ns, connected), target.hostname, target.port
        )
        transports.append(transport)
    for _ in range(clients):
        await connected.acquire()
    count = int(seconds * EVENTS_PER_S)
    await _append(target.hostname or "", target.port or 0, head, stream, count)
    ends = time.monotonic() + 30
    while len(times_ns) < clients * count and time.monotonic() < ends:
        await asyncio.sleep(0.01)
    for transport in transports:
        transport.abort()
    if len(times_ns) != clients * count:
        raise RuntimeError(f"{len(times_ns)} of {clients * count} events arrived")
    return [value / 1e6 for value in times_ns]


async def _append(host: str, port: int, head: str, stream: str, count: int) -> None:
    """Append events at a steady rate over one connection."""
    reader, writer = await asyncio.open_connection(host, port)
    began = time.monotonic()
    for number in range(count):
        await asyncio.sleep(max(0.0, began + number / EVENTS_PER_S - time.monotonic()))
        event: Mapping[str, object] = {
            "type": "run.step", "stream": stream, "payload": {"sent": time.monotonic_ns(), "text": "x" * 200},
        }  # fmt: skip
        body = json.dumps(event).encode()
        lines = (
            f"POST /api/events HTTP/1.1\r\n{head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        writer.write(lines.encode() + body)
        answer = await reader.read(READ)
        if not answer.startswith(b"HTTP/1.1 201"):
            raise RuntimeError(answer[:200].decode("latin-1"))
    writer.close()
