"""Webhooks that come in: signed requests stored durably, beside the same server answering without storing.

python -m benchmarks.inbound
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import hmac
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import aiohttp

from benchmarks.alone import alone
from benchmarks.goals import outward
from benchmarks.measure import Book
from benchmarks.orders import ROOT
from benchmarks.server import Server as Database
from benchmarks.sizes import Sizes
from holdfast.daemon.config import load_config
from holdfast.daemon.serve import Server, bind
from holdfast.daemon.wiring import House
from holdfast.domain.event import NewEvent
from holdfast.store.open import open_store
from holdfast.surfaces.rest.app import build_app
from holdfast.surfaces.rest.gate import Tokens

CALLERS = 64
READY_S = 30.0
SECRET = "secret-of-the-benchmark"
CONFIG = f"hooks: {{inbound: {{bench: {{secret: {SECRET}, id_header: X-Bench-Id}}}}}}\n"
PATH = "/hooks/inbound/bench"


def measure(book: Book, folder: Path, server: Database | None, sizes: Sizes) -> None:
    """The two servers take turns."""
    for _ in range(sizes.times):
        for name in ("without storing", "stored"):
            book.add(f"inbound.{name}", _measure(name, sizes.inbound), "/s")


def _measure(manner: str, requests: int) -> float:
    with tempfile.TemporaryDirectory(prefix="hf-bench-") as folder:
        environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
        command = [sys.executable, "-m", "benchmarks.inbound", "--serve", manner, "--folder", folder]
        server = subprocess.Popen(command, env=environment, cwd=folder)
        try:
            return asyncio.run(_load(_wait_for(Path(folder) / "address", server), requests))
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(60)


def _wait_for(path: Path, server: subprocess.Popen[bytes]) -> str:
    ends = time.monotonic() + READY_S
    while not path.exists():
        if server.poll() is not None or time.monotonic() > ends:
            raise RuntimeError("the server did not start")
        time.sleep(0.02)
    return path.read_text()


async def _load(url: str, requests: int) -> float:
    """Signed requests of 1 KB, so many callers at a time; how many are answered in a second."""
    left = iter(range(requests))
    connector = aiohttp.TCPConnector(limit=CALLERS)
    async with aiohttp.ClientSession(connector=connector) as session:

        async def work() -> None:
            for number in left:
                body = json.dumps({"number": number, "text": "x" * 1000}).encode()
                signature = "sha256=" + hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
                headers = {
                    "Content-Type": "application/json",
                    "X-Hook-Signature": signature,
                    "X-Bench-Id": f"b-{number}",
                }
                async with session.post(url + PATH, data=body, headers=headers) as answer:
                    assert answer.status == 200, await answer.text()
                    await answer.read()

        began = time.perf_counter()
        await asyncio.gather(*(work() for _ in range(CALLERS)))
        return requests / (time.perf_counter() - began)


class Nowhere:
    """Takes events and keeps none."""

    async def append(self, event: NewEvent) -> dict[str, Any]:
        return {}


async def _serve(manner: str, folder: Path) -> None:
    """The daemon's own application and connection, over a store or over nothing."""
    (folder / "holdfast.yml").write_text(CONFIG)
    config = load_config(folder / "holdfast.yml")
    house = House(open_store(f"sqlite:///{folder}/bench.db", keep=True), config, None)
    await house.start()
    if manner != "stored":
        house.operations.events = Nowhere()  # type: ignore[assignment]
    listener = bind("127.0.0.1", 0)
    tokens = Tokens(None, house.operations.tokens.scope_of)
    server = Server(build_app(house.operations, tokens, {"127.0.0.1"}, config.body_max_bytes, config.inbound), listener)
    await server.start()
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    made = folder / "made"
    made.write_text(f"http://127.0.0.1:{listener.getsockname()[1]}")
    made.rename(folder / "address")
    await stop.wait()
    await server.stop()
    await house.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--serve", choices=("stored", "without storing"), help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    given, _ = parser.parse_known_args()
    if given.serve:
        asyncio.run(_serve(given.serve, given.folder))
    else:
        alone(measure, outward())


if __name__ == "__main__":
    main()
