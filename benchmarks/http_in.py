"""Incoming requests over kept-alive connections: `POST /api/events` and signed webhooks, and a bare endpoint."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks import wrk
from benchmarks.daemon import Daemon
from benchmarks.measure import Results
from benchmarks.orders import ROOT, Failed
from benchmarks.server import Server
from benchmarks.sizes import Sizes

MANY = 64
READY_S = 30.0
SECRET = "secret-of-the-benchmark"
CONFIG = f"hooks: {{inbound: {{bench: {{secret: {SECRET}}}}}}}\n"
BODY = json.dumps({"type": "order.placed", "payload": {"text": "x" * 1000}}).encode()
JSON = {"Content-Type": "application/json"}
SIGNED = {**JSON, "X-Hook-Signature": "sha256=" + hmac.new(SECRET.encode(), BODY, hashlib.sha256).hexdigest()}


def measure(results: Results, folder: Path, server: Server | None, sizes: Sizes) -> None:
    """Measure the three alternately. The webhooks are normalized and delivered meanwhile, as in normal use."""
    for _ in range(sizes.times):
        with _bare() as url:
            _add(results, "bare Starlette", f"{url}/events", JSON, sizes)
        for name, path, headers in (("events", "/api/events", JSON), ("webhooks", "/hooks/inbound/bench", SIGNED)):
            with Daemon(folder, f"sqlite:///{folder}/http-{time.monotonic_ns()}.db", CONFIG, app=None) as daemon:
                daemon.start()
                daemon.wait_settled()
                token = (daemon.home / "token").read_text().strip()
                _add(results, name, daemon.url + path, {**headers, "Authorization": f"Bearer {token}"}, sizes)


def _add(results: Results, name: str, url: str, headers: dict[str, str], sizes: Sizes) -> None:
    one = wrk.post(url, BODY, headers, connections=1, seconds=sizes.http_s)
    results.add(f"http.{name}, 1 connection", one.per_second, "/s")
    results.add(f"http.{name}, 1 connection, p50", one.p50_ms, "ms")
    many = wrk.post(url, BODY, headers, connections=MANY, seconds=sizes.http_s)
    results.add(f"http.{name}, {MANY} connections", many.per_second, "/s")
    results.add(f"http.{name}, {MANY} connections, p99", many.p99_ms, "ms")


@contextlib.contextmanager
def _bare() -> Iterator[str]:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = int(sock.getsockname()[1])
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen([sys.executable, "-m", "benchmarks.bare_http", str(port)], env=environment)
    try:
        ends = time.monotonic() + READY_S
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            if process.poll() is not None or time.monotonic() > ends:
                raise Failed("the bare server did not start")
            time.sleep(0.02)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(30)
