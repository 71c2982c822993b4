"""What a publish adds to a local transaction: the same transaction with and without it, in turn."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from benchmarks.latency import fresh
from benchmarks.measure import Book, percentile
from benchmarks.orders import Failed
from benchmarks.server import Server
from benchmarks.sizes import Sizes
from holdfast import Outbox

TABLE = "CREATE TABLE orders (id bigint PRIMARY KEY, item text NOT NULL)"
ITEM = "x" * 200
PAYLOAD = {"id": 42, "item": ITEM}


def measure(book: Book, folder: Path, server: Server | None, sizes: Sizes) -> None:
    drivers = (("sqlite", "sqlite3", _sqlite3), ("postgres", "psycopg", _psycopg), ("postgres", "asyncpg", _asyncpg))
    for _ in range(sizes.times):
        for store, driver, take in drivers:
            try:
                with fresh(store, folder, server) as url:
                    outbox = Outbox(url)
                    outbox.migrate()
                    bare, with_publish = take(url, outbox, sizes.publish)
                book.add(f"publish.{driver}.bare", percentile(bare, 0.5), "ms")
                book.add(f"publish.{driver}.with", percentile(with_publish, 0.5), "ms")
                book.add(f"publish.{driver}.adds", percentile(with_publish, 0.5) - percentile(bare, 0.5), "ms")
            except (Failed, ImportError, OSError) as error:
                book.miss(f"publish.{driver}", str(error))


def _turns(transact: Callable[[int, bool], None], count: int) -> tuple[list[float], list[float]]:
    times: tuple[list[float], list[float]] = ([], [])
    for number in range(2 * count):
        publishes = number % 2 == 1
        began = time.perf_counter()
        transact(number, publishes)
        times[publishes].append((time.perf_counter() - began) * 1000)
    return times


def _sqlite3(url: str, outbox: Outbox, count: int) -> tuple[list[float], list[float]]:
    connection = sqlite3.connect(url.removeprefix("sqlite:///"))
    outbox.prepare(connection)
    connection.execute(TABLE)

    def transact(number: int, publishes: bool) -> None:
        with connection:
            connection.execute("INSERT INTO orders VALUES (?, ?)", (number, ITEM))
            if publishes:
                outbox.publish(connection, "bench.event", PAYLOAD)

    try:
        return _turns(transact, count)
    finally:
        connection.close()


def _psycopg(url: str, outbox: Outbox, count: int) -> tuple[list[float], list[float]]:
    import psycopg

    with psycopg.connect(url) as connection:
        connection.execute(TABLE)
        connection.commit()

        def transact(number: int, publishes: bool) -> None:
            with connection.transaction():
                connection.execute("INSERT INTO orders VALUES (%s, %s)", (number, ITEM))
                if publishes:
                    outbox.publish(connection, "bench.event", PAYLOAD)

        return _turns(transact, count)


def _asyncpg(url: str, outbox: Outbox, count: int) -> tuple[list[float], list[float]]:
    import asyncpg

    async def run() -> tuple[list[float], list[float]]:
        connection = await asyncpg.connect(url)
        await connection.execute(TABLE)

        async def transact(number: int, publishes: bool) -> None:
            async with connection.transaction():
                await connection.execute("INSERT INTO orders VALUES ($1, $2)", number, ITEM)
                if publishes:
                    await outbox.publish_async(connection, "bench.event", PAYLOAD)

        try:
            return await _turns_async(transact, count)
        finally:
            await connection.close()

    return asyncio.run(run())


async def _turns_async(transact: Callable[[int, bool], Awaitable[None]], count: int) -> tuple[list[float], list[float]]:
    times: tuple[list[float], list[float]] = ([], [])
    for number in range(2 * count):
        publishes = number % 2 == 1
        began = time.perf_counter()
        await transact(number, publishes)
        times[publishes].append((time.perf_counter() - began) * 1000)
    return times
