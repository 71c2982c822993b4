"""A worker process with one handler that waits for so many seconds: `python -m benchmarks.daemons_worker URL SECONDS`.

It prints `ready` and runs until its standard input ends.
"""

from __future__ import annotations

import asyncio
import sys

from holdfast.config.config import load_config
from holdfast.daemon.runtime import Runtime
from holdfast.domain.address import parse_address
from holdfast.domain.contract import Contract
from holdfast.store.open import open_store


async def run(url: str, seconds: float) -> None:
    async def handle(event: object) -> None:
        if seconds:
            await asyncio.sleep(seconds)

    contract = Contract("bench", parse_address("handler:bench"), source="programmatic")
    runtime = Runtime(open_store(url), load_config(None), None, handlers={"bench": handle}, contracts=[contract])
    await runtime.start()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    await asyncio.to_thread(sys.stdin.read)
    await runtime.stop(1.0)


if __name__ == "__main__":
    asyncio.run(run(sys.argv[1], float(sys.argv[2])))
