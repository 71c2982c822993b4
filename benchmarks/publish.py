"""What a publish adds to a local transaction: the same transaction alternately with and without it.

For comparison, what one more insert into a table of (id, type, payload) adds: the least any outbox costs.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from benchmarks.latency import fresh
from benchmarks.measure import Results, percentile
from benchmarks.orders import Failed
from benchmarks.server import Server
from benchmarks.sizes import Sizes
from holdfast import Outbox

TABLE = "CREATE TABLE orders (id bigint PRIMARY KEY, item text NOT NULL)"
BY_HAND = "CREATE TABLE by_hand (id bigint PRIMARY KEY, type text NOT NULL, payload text NOT NULL)"
BARE, HAND, PUBLISH = range(3)
Times = tuple[list[float], list[float], list[float]]
ITEM = "x" * 200
PAYLOAD = {"id": 42, "item": ITEM}
BODY = json.dumps(PAYLOAD)


def measure(results: Results, folder: Path, server: Server | None, sizes: Sizes) -> None:
    drivers = (("sqlite", "sqlite3", _sqlite3), ("postgres", "psycopg", _psycopg), ("postgres", "asyncpg", _asyncpg))
    for _ in range(sizes.times):
        for store, driver, take in drivers:
            try:
                with fresh(store, folder, server) as url:
                    outbox = Outbox(url)
                    outbox.migrate()
                    bare, by_hand, published = (percentile(times, 0.5) for times in take(url, outbox, sizes.publish))
                results.add(f"publish.{driver}.bare", bare, "ms")
                results.add(f"publish.{driver}.with", published, "ms")
                results.add(f"publish.{driver}.an insert adds", by_hand - bare, "ms")
                results.add(f"publish.{driver}.adds", published - bare, "ms")
            except (Failed, ImportError, OSError) as error:
                results.miss(f"publish.{driver}", str(error))


def _turns(transact: Callable[[int, int], None], count: int) -> Times:
    times: Times = ([], [], [])
    for number in range(3 * count):
        began = time.perf_counter()
        transact(number, number % 3)
        times[number % 3].append((time.perf_counter() - began) * 1000)
    return times


def _sqlite3(url: str, outbox: Outbox, count: int) -> Times:
    connection = sqlite3.connect(url.removeprefix("sqlite:///"))
    outbox.prepare(connection)
    connection.execute(TABLE)
    connection.execute(BY_HAND)

    def transact(number: int, what: int) -> None:
        with connection:
            connection.execute("INSERT INTO orders VALUES (?, ?)", (number, ITEM))
            if what == PUBLISH:
                outbox.publish(connection, "bench.event", PAYLOAD)
            elif what == HAND:
                connection.execute("INSERT INTO by_hand VALUES (?, ?, ?)", (number, "bench.event", BODY))

    try:
        return _turns(transact, count)
    finally:
        connection.close()


def _psycopg(url: str, outbox: Outbox, count: int) -> Times:
    import psycopg

    with psycopg.connect(url) as connection:
        connection.execute(TABLE)
        connection.execute(BY_HAND)
        connection.commit()

        def transact(number: int, what: int) -> None:
            with connection.transaction():
                connection.execute("INSERT INTO orders VALUES (%s, %s)", (number, ITEM))
                if what == PUBLISH:
                    outbox.publish(connection, "bench.event", PAYLOAD)
                elif what == HAND:
                    connection.execute("INSERT INTO by_hand VALUES (%s, %s, %s)", (number, "bench.event", BODY))

        return _turns(transact, count)


def _asyncpg(url: str, outbox: Outbox, count: int) -> Times:
    import asyncpg

    async def run() -> Times:
        connection = await asyncpg.connect(url)
        await connection.execute(TABLE)
        await connection.execute(BY_HAND)

        async def transact(number: int, what: int) -> None:
            async with connection.transaction():
                await connection.execute("INSERT INTO orders VALUES ($1, $2)", number, ITEM)
                if what == PUBLISH:
                    await outbox.publish_async(connection, "bench.event", PAYLOAD)
                elif what == HAND:
                    await connection.execute("INSERT INTO by_hand VALUES ($1, $2, $3)", number, "bench.event", BODY)

        try:
            return await _turns_async(transact, count)
        finally:
            await connection.close()

    return asyncio.run(run())


async def _turns_async(transact: Callable[[int, int], Awaitable[None]], count: int) -> Times:
    times: Times = ([], [], [])
    for number in range(3 * count):
        began = time.perf_counter()
        await transact(number, number % 3)
        times[number % 3].append((time.perf_counter() - began) * 1000)
    return times
