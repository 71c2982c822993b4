"""Many writers on one PostgreSQL: shared streams, rollbacks, long transactions; and two routers that must miss nothing.

Each transaction publishes to one stream or calls `publish_many` once, so deadlocks are impossible by design. A deadlock
error therefore counts as a violation.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import asyncpg

from holdfast.outbox import Outbox
from holdfast.proof.kills.evidence import Violation
from holdfast.proof.receipt_faults import verify_store
from holdfast.store.postgres.place import parse_place
from holdfast.store.postgres.store import PostgresStore
from holdfast.store.roles.routing import Plan, RouteTarget
from holdfast.store.roles.store import Store

WRITERS = 8
STREAMS = 4
ROLLBACK_SHARE = 0.3
LONG = 0.05
LONG_S = 0.5
BATCH = 500
FAULTS_SHOWN = 20


@dataclass
class Writing:
    """What the writers did, and the violations found."""

    transactions: int = 0
    rolled_back: int = 0
    long: int = 0
    deadlocks: int = 0
    committed: Counter[str] = field(default_factory=Counter)
    routed: list[list[tuple[str, int]]] = field(default_factory=list)
    violations: list[Violation] = field(default_factory=list)

    @property
    def events(self) -> int:
        return self.committed.total()


async def write_for(url: str, seconds: float, seed: int = 0, writers: int = WRITERS) -> Writing:
    """Run the writers on the store at `url` for so long, with two routers beside them."""
    found = Writing()
    until_s = time.monotonic() + seconds
    async with _opened(url) as store, _opened(url) as other:
        await store.contracts.version()  # creates the tables
        writing_tasks = [
            _write(url, found, random.Random(f"{seed}/{number}"), number, until_s) for number in range(writers)
        ]
        routers = [_route(each, found, until_s) for each in (store, other)]
        await asyncio.gather(*writing_tasks, *routers, _hold_snapshot(url, until_s))
        found.routed.append(await route_all(store))
        backlog = await store.routing.backlog()
        heads = {}
        for name in sorted(found.committed):
            stream = await store.events.stream(name)
            heads[name] = 0 if stream is None else stream.head
        found.violations += [Violation("receipts", "verify", line) for line in await verify_store(store)]
    found.violations += judge(found, heads, backlog)
    return found


def judge(found: Writing, heads: dict[str, int], backlog: int) -> list[Violation]:
    """Nothing is unrouted, skipped or out of order, no stream has a gap, and there was no deadlock."""
    faults = []
    if backlog:
        faults.append(Violation("writers", "router", f"{backlog} events are left unrouted"))
    if found.deadlocks:
        faults.append(Violation("writers", "deadlock", f"{found.deadlocks} transactions failed with a deadlock"))
    numbers: defaultdict[str, list[int]] = defaultdict(list)
    for run in found.routed:
        alone: defaultdict[str, list[int]] = defaultdict(list)
        for stream, seq in run:
            numbers[stream].append(seq)
            alone[stream].append(seq)
        for stream, seqs in alone.items():
            if seqs != sorted(seqs):
                faults.append(Violation("order", stream, "a router saw the stream out of order"))
    for stream, count in found.committed.items():
        if heads.get(stream) != count:
            faults.append(
                Violation("lost", stream, f"{count} events were committed, but its head is {heads.get(stream)}")
            )
        if sorted(numbers[stream]) != list(range(1, count + 1)):
            faults.append(
                Violation("lost", stream, f"{count} events were committed, {len(numbers[stream])} were routed")
            )
    return faults[:FAULTS_SHOWN]


async def route_all(store: Store, queue: int | None = None) -> list[tuple[str, int]]:
    """Route all events. Returns (stream, seq) in the order they were routed."""
    seen: list[tuple[str, int]] = []
    while True:
        async with store.routing.batch(BATCH) as batch:
            if not batch.events:
                return seen
            seen += [(event.stream, event.seq) for event in batch.events]
            if not await batch.commit([_plan(event, queue) for event in batch.events]):
                raise RuntimeError("the contract version changed although no contract was changed")


def _plan(event: Any, queue: int | None) -> Plan:
    lane = f"c {event.stream}" if event.stream != event.id else None
    return Plan(event.n, () if queue is None else (RouteTarget(queue, "handler:h", "handler", lane),), 0)


async def _write(url: str, found: Writing, chance: random.Random, number: int, until_s: float) -> None:
    """Even writers publish to one stream, odd ones several events to several streams."""
    place, outbox = parse_place(url), Outbox(url)
    connection = await asyncpg.connect(place.dsn)
    try:
        while time.monotonic() < until_s:
            chosen = _draw_streams(chance, several=number % 2 == 1)
            transaction = connection.transaction()
            await transaction.start()
            try:
                await outbox.publish_many_async(connection, [{"type": "t", "stream": stream} for stream in chosen])
                if chance.random() < LONG:
                    found.long += 1
                    await asyncio.sleep(chance.uniform(0.0, LONG_S))
                await _end(transaction, found, chosen, roll_back=chance.random() < ROLLBACK_SHARE)
            except asyncpg.DeadlockDetectedError:
                found.deadlocks += 1
                await transaction.rollback()
    finally:
        await connection.close()


async def _end(transaction: Any, found: Writing, chosen: Sequence[str], roll_back: bool) -> None:
    found.transactions += 1
    if roll_back:
        found.rolled_back += 1
        await transaction.rollback()
    else:
        await transaction.commit()
        found.committed.update(chosen)


def _draw_streams(chance: random.Random, several: bool) -> list[str]:
    streams = [f"s{number}" for number in range(STREAMS)]
    if several:
        return [chance.choice(streams) for _ in range(chance.randint(1, 20))]
    return [chance.choice(streams)] * chance.randint(1, 3)


async def _route(store: PostgresStore, found: Writing, until_s: float) -> None:
    run: list[tuple[str, int]] = []
    found.routed.append(run)
    while time.monotonic() < until_s:
        run += await route_all(store)
        await asyncio.sleep(0.001)


async def _hold_snapshot(url: str, until_s: float) -> None:
    """Hold one read-only snapshot open the whole time, as a report or a backup does."""
    place = parse_place(url)
    connection = await asyncpg.connect(place.dsn)
    try:
        async with connection.transaction(isolation="repeatable_read", readonly=True):
            await connection.fetchval(f"SELECT count(*) FROM {place.schema}.events")
            await asyncio.sleep(max(0.0, until_s - time.monotonic()))
    finally:
        await connection.close()


@contextlib.asynccontextmanager
async def _opened(url: str) -> AsyncIterator[PostgresStore]:
    store = PostgresStore.open(url)
    try:
        yield store
    finally:
        await store.close()
