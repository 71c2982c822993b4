"""The store on PostgreSQL: the roles, wired to one pool and, in a working process, one direct connection."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from holdfast.domain.errors import StoreFailed
from holdfast.ports import Chance, Clock, Probe, SystemChance, SystemClock, no_probe
from holdfast.store.pgmq.queue_admin import PostgresQueueAdmin, check_queue, move_queue
from holdfast.store.postgres.archives import PostgresArchives
from holdfast.store.postgres.blobs import PostgresBlobs
from holdfast.store.postgres.bookmarks import PostgresBookmarks
from holdfast.store.postgres.clock import ServerClock
from holdfast.store.postgres.contracts import PostgresContracts
from holdfast.store.postgres.cursors import PostgresCursors
from holdfast.store.postgres.deliveries import PostgresDeliveries
from holdfast.store.postgres.events import PostgresEvents
from holdfast.store.postgres.feed import PostgresFeed
from holdfast.store.postgres.gates import PostgresGates
from holdfast.store.postgres.history import PostgresHistory
from holdfast.store.postgres.liveness import Liveness
from holdfast.store.postgres.maintenance import PostgresMaintenance
from holdfast.store.postgres.migrate import migrate, require
from holdfast.store.postgres.operator import PostgresOperator
from holdfast.store.postgres.owners import PostgresOwners
from holdfast.store.postgres.place import Place, parse_place
from holdfast.store.postgres.pool import Pool
from holdfast.store.postgres.pooled_connection import PooledConnection
from holdfast.store.postgres.readers import PostgresReaders
from holdfast.store.postgres.ready_queue import PostgresReadyQueue
from holdfast.store.postgres.receipts import PostgresReceipts
from holdfast.store.postgres.routing import PostgresRouting
from holdfast.store.postgres.sessions import PostgresSessions
from holdfast.store.postgres.tokens import PostgresTokens
from holdfast.store.roles.store import Feature
from holdfast.version import __version__

LeaseClock = Callable[[], int | None]
"""Milliseconds for leases, or None for the database's own clock, the only one that all processes share."""


class PostgresStore:
    """Open with `PostgresStore.open`; the first use connects. Any number of processes may have the same one open."""

    features = frozenset({Feature.MANY_OWNERS, Feature.COMPATIBILITY_VIEWS})

    def __init__(
        self, place: Place, clock: ServerClock, lease_clock: LeaseClock, chance: Chance, create: bool, probe: Probe
    ) -> None:
        self.url = place.shown
        self._listeners: list[Callable[[str], None]] = []

        async def prepare(connection: PooledConnection) -> None:
            if create:
                await migrate(connection, place.schema, __version__, _first_queue(place))
            else:
                await require(connection)
            await check_queue(connection, place.queue)

        pool = self._pool = Pool(place, prepare, probe, clock)
        changed = self._changed
        liveness = self._liveness = Liveness(pool, chance, changed)
        self.events = PostgresEvents(pool, liveness, clock, chance, changed)
        self.contracts = PostgresContracts(pool, clock, changed)
        ready = PostgresReadyQueue()
        self.deliveries = PostgresDeliveries(pool, ready, liveness, clock, lease_clock, chance, changed)
        uncertain = self.deliveries.uncertain.add
        self.routing = PostgresRouting(pool, ready, clock, lease_clock, chance, changed, uncertain)
        gate_clock = _database_clock if lease_clock is _database_clock else clock.now_ms
        self.gates = PostgresGates(pool, gate_clock)
        self.sessions = PostgresSessions(pool, clock)
        self.operator = PostgresOperator(pool, ready, clock, changed)
        self.receipts = PostgresReceipts(pool, clock)
        self.cursors = PostgresCursors(pool, clock)
        self.readers = PostgresReaders(pool, clock, chance, changed)
        self.feed = PostgresFeed(pool)
        self.bookmarks = PostgresBookmarks(pool, clock)
        self.archives = PostgresArchives(pool, clock)
        self.history = PostgresHistory(pool)
        self.owners = PostgresOwners(pool, liveness, clock)
        self.tokens = PostgresTokens(pool, clock)
        self.blobs = PostgresBlobs(pool, clock)
        self.maintenance = PostgresMaintenance(pool, liveness, clock)
        self.queue_admin = PostgresQueueAdmin(pool, ready, clock)

    @classmethod
    def open(
        cls,
        url: str,
        *,
        create: bool = True,
        clock: Clock | None = None,
        chance: Chance | None = None,
        probe: Probe = no_probe,
        **of_other_stores: Any,
    ) -> PostgresStore:
        """Create the store without connecting yet. `create`: create and migrate the tables where needed.

        All times are the database's, unless a `clock` is given, which only tests do: leases then run on its boot
        clock, so that a test can let them expire without waiting.
        """
        lease_clock: LeaseClock = _database_clock if clock is None else clock.boot_ms
        server_clock = ServerClock(clock or SystemClock(), own=clock is not None)
        return cls(parse_place(url), server_clock, lease_clock, chance or SystemChance(), create, probe)

    def on_failure(self, listener: Callable[[StoreFailed], None]) -> None:
        self._pool.failed = listener

    def on_change(self, listener: Callable[[str], None]) -> None:
        self._listeners.append(listener)

    def _changed(self, topic: str) -> None:
        for listener in self._listeners:
            listener(topic)

    async def close(self) -> None:
        await self._liveness.close()
        await self._pool.close()
        await asyncio.sleep(0)  # dropped connections close their sockets in the next turn of the loop


async def prepare_database(url: str) -> int:
    """Create or update the tables. Returns the version found before."""
    place = parse_place(url)
    found = 0

    async def prepare(connection: PooledConnection) -> None:
        nonlocal found
        found = await migrate(connection, place.schema, __version__, _first_queue(place))
        await check_queue(connection, place.queue)

    pool = Pool(place, prepare, no_probe, ServerClock(SystemClock(), own=False))
    try:
        await pool.rows("SELECT 1")
    finally:
        await pool.close()
    return found


def _first_queue(place: Place) -> Callable[[PooledConnection], Awaitable[object]] | None:
    """What a new store needs so that its queue is the one that the URL asks for."""
    if place.queue is None:
        return None
    kind, now_ms = place.queue, SystemClock().now_ms()
    return lambda connection: move_queue(connection, place.schema, kind, None, now_ms)


def _database_clock() -> None:
    return None
