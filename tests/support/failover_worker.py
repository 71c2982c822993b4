"""A worker process whose ordered handler writes `<pid> <stream> <number>` into a file for each event.

python failover_worker.py URL NOTES
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from holdfast.config.config import load_config
from holdfast.daemon.runtime import Runtime
from holdfast.domain.address import parse_address
from holdfast.domain.contract import Contract
from holdfast.domain.event import Event
from holdfast.store.open import open_store


async def main(url: str, notes: Path, seconds: float) -> None:
    with notes.open("a", buffering=1) as file:

        async def handler(event: Event) -> None:
            await asyncio.sleep(seconds)
            file.write(f"{os.getpid()} {event.stream} {event.payload}\n")

        contract = Contract("h", parse_address("handler:h"), source="programmatic", ordered=True)
        runtime = Runtime(open_store(url), load_config(None), None, handlers={"h": handler}, contracts=[contract])
        await runtime.start()
        file.write(f"{os.getpid()} works -\n")
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2]), float(sys.argv[3]) if len(sys.argv) > 3 else 0.0))
