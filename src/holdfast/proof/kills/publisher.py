"""Publishes inside transactions: a business row and its event, committed together or rolled back together.

A separate process, like `load`: several connections, and a record of what was committed. A commit without an answer is
repeated with the same key until there is one. `HOLDFAST_PROVE_STORE` names the database and the schema.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import random
import sys
import time
from pathlib import Path
from typing import Any

import asyncpg

from holdfast.domain.errors import HoldfastError
from holdfast.outbox import Outbox
from holdfast.proof.kills.load import make_event
from holdfast.proof.kills.records import Accepted, RecordFile, RolledBack, Sent, digest_json
from holdfast.store.postgres.place import parse_place

CONNECTIONS = 3
ROLLBACK_SHARE = 0.15
UNKNOWN_S = 300.0
PAUSE_S = 0.1
WAIT_MAX_S = 20.0
FAULTS = (
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    HoldfastError,
    OSError,
    TimeoutError,
)


class Publisher:
    """`number` keeps its keys apart from those of other publishers."""

    def __init__(
        self, url: str, tag: str, records: RecordFile, seed: int, rate: float, streams: int, number: int
    ) -> None:
        place = parse_place(url)
        self._outbox, self._dsn, self._schema, self._tag = Outbox(url), place.dsn, place.schema, tag
        self._records, self._seed, self._streams = records, seed, streams
        self._pause_s = CONNECTIONS / rate
        self._turn = number * 1_000_000
        self.stopping = asyncio.Event()

    async def work(self) -> None:
        """One of several workers: publish the next event, and retry until its outcome is known."""
        connection: Any = None
        while not self.stopping.is_set():
            self._turn += 1
            connection = await self._fact(connection, self._turn)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.stopping.wait(), self._pause_s)
        if connection is not None and not connection.is_closed():
            await connection.close(timeout=WAIT_MAX_S)

    async def _fact(self, connection: Any, turn: int) -> Any:
        event = make_event(self._seed, turn, self._streams)
        key = event["dedup_key"]
        if random.Random(f"undone/{self._seed}/{turn}").random() < ROLLBACK_SHARE:
            self._records.write(RolledBack(key, time.monotonic_ns()))
            keep = False
        else:
            self._records.write(Sent(key, event["stream"], digest_json(event["payload"]), time.monotonic_ns()))
            keep = True
        deadline_s = time.monotonic() + UNKNOWN_S
        while time.monotonic() < deadline_s:
            try:
                async with asyncio.timeout(WAIT_MAX_S):
                    if connection is None or connection.is_closed():
                        connection = await asyncpg.connect(
                            self._dsn, timeout=10, server_settings={"application_name": f"{self._tag}-publisher"}
                        )
                    published = await self._transaction(connection, event, keep)
            except FAULTS:
                if connection is not None:
                    connection.terminate()
                    connection = None
                await asyncio.sleep(PAUSE_S)
                continue
            if keep:
                self._records.write(Accepted(key, published.id, None, None, published.duplicate, time.monotonic_ns()))
            return connection
        return connection

    async def _transaction(self, connection: Any, event: dict[str, Any], keep: bool) -> Any:
        transaction = connection.transaction()
        await transaction.start()
        await connection.execute(
            f"INSERT INTO {self._schema}.prove_orders (key) VALUES ($1) ON CONFLICT DO NOTHING", event["dedup_key"]
        )
        published = await self._outbox.publish_async(
            connection, event["type"], event["payload"], stream=event["stream"], dedup=event["dedup_key"]
        )
        if keep:
            await transaction.commit()
        else:
            await transaction.rollback()
        return published


async def run(publisher: Publisher) -> None:
    workers = [asyncio.create_task(publisher.work()) for _ in range(CONNECTIONS)]
    # The parent holds stdin open; at its end, finish the transactions that have begun.
    await asyncio.to_thread(sys.stdin.read)
    publisher.stopping.set()
    await asyncio.gather(*workers)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--records", type=Path, required=True)
    parser.add_argument("--tag", required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--rate", type=float, required=True)
    parser.add_argument("--streams", type=int, required=True)
    parser.add_argument("--number", type=int, required=True)
    given = parser.parse_args()
    url = os.environ["HOLDFAST_PROVE_STORE"]  # not an argument: it may hold a password
    asyncio.run(
        run(Publisher(url, given.tag, RecordFile(given.records), given.seed, given.rate, given.streams, given.number))
    )  # fmt: skip


if __name__ == "__main__":
    main()
