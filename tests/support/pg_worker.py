"""A worker process: a runtime on a PostgreSQL store, with short leases and a slow handler.

    python pg_worker.py URL NOTES LEASE_SECONDS blocks|waits|stays|returns SECONDS

Its handler writes `<pid> begins` and `<pid> ends` into NOTES. With `stays` it waits for a file NOTES.go.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path

from holdfast.config.config import load_config
from holdfast.daemon.runtime import Runtime
from holdfast.domain.address import parse_address
from holdfast.domain.contract import Contract
from holdfast.egress import engine
from holdfast.store.open import open_store


async def main(url: str, notes: Path, lease_s: float, manner: str, seconds: float) -> None:
    lease_times_ms = dict.fromkeys(engine.lease_times_ms(), round(lease_s * 1000))
    engine.lease_times_ms = lambda: lease_times_ms

    def note(text: str) -> None:
        with notes.open("a") as file:
            file.write(f"{os.getpid()} {text}\n")

    async def handler(event: object) -> None:
        note("begins")
        if manner == "blocks":
            time.sleep(seconds)  # noqa: ASYNC251 - the mistake that is looked at
        elif manner == "waits":
            await asyncio.sleep(seconds)
        elif manner == "stays":
            while not notes.with_suffix(".go").exists():
                await asyncio.sleep(0.05)
        note("ends")

    contract = Contract("h", parse_address("handler:h"), source="programmatic", timeout_s=60)
    runtime = Runtime(open_store(url), load_config(None), None, handlers={"h": handler}, contracts=[contract])
    await runtime.start()
    note("works")
    try:
        await asyncio.Event().wait()
    finally:
        note(f"lost {runtime.engine.leases_lost}")


if __name__ == "__main__":
    url, notes, lease, manner, seconds = sys.argv[1:]
    asyncio.run(main(url, Path(notes), float(lease), manner, float(seconds)))
