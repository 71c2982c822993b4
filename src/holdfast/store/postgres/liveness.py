"""Liveness: one direct connection of a working process. It proves that the process is alive and receives notifications.

An owner holds a session advisory lock: the server frees it the moment the connection ends, for whatever reason. The
same connection LISTENs for hints that others appended events. Both need a server session of our own. Behind a pooler
such as PgBouncer there is none, unless the store's URL gives the address of the server itself (`direct=`). Without it
the process is `silent`: it updates its owner row every `PROBE_EVERY_S` to show that it lives, and polls for work.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable

from holdfast.domain.errors import BadConfig, HoldfastError, StoreError
from holdfast.ports import Chance
from holdfast.store.postgres.errors import FAULTS, translate
from holdfast.store.postgres.hosts import Hosts
from holdfast.store.postgres.lease_keeper import LeaseKeeper
from holdfast.store.postgres.owner_check import TROUBLED_S
from holdfast.store.postgres.pool import Pool, translated
from holdfast.store.postgres.pooled_connection import PooledConnection
from holdfast.store.postgres.statements import sql

CHANNEL = "holdfast_events"
PROBE_EVERY_S = 10.0
PROBE_WAIT_S = 5.0
STOP_WAIT_S = 3.0
BACKOFF_S = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
_KEEPALIVES = "SET tcp_keepalives_idle = 10; SET tcp_keepalives_interval = 5; SET tcp_keepalives_count = 3"
NO_LISTEN = "LISTEN does not work on this connection: new events are found by polling"
POOLED = (
    "a pooler such as PgBouncer is in front of this database: LISTEN and session locks do not work through it, so new "
    "events are found by polling, and the work of a process that dies is taken over when its lease ends; give the "
    "store's URL direct=HOST:PORT of the server itself to have both"
)
_DIRECT_IS_POOLED = "direct= in the store's URL leads to a pooler too, not to the server itself"

log = logging.getLogger("holdfast.store")

_LOCAL_OWNERS: set[tuple[str, str, int]] = set()
"""The owners that work in this process, of all stores: database, schema, id."""


class Liveness:
    def __init__(self, pool: Pool, chance: Chance, changed: Callable[[str], None]) -> None:
        self._pool, self._chance, self._changed = pool, chance, changed
        place = pool.place
        self._hosts = Hosts(place.direct or place.dsn, place.schema)
        self.lease_keeper = LeaseKeeper(self._hosts, lambda: sorted(self._owners))
        self.silent = False
        """Whether a pooler prevents a server session of our own."""
        self._connection: PooledConnection | None = None
        self._owners: set[int] = set()
        self._busy = asyncio.Lock()
        self._broken = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._rang = False
        self._closing = False
        self._heard: asyncio.Future[None] | None = None
        self._probes = 0
        self._broke_s = -TROUBLED_S
        self.listens: bool | None = None
        """Whether notifications arrive; None until the first probe is answered or times out."""

    def notes(self) -> list[str]:
        """Warnings about this connection for `status`."""
        if self.silent:
            return [POOLED]
        return [NO_LISTEN] if self.listens is False else []

    @property
    def working(self) -> bool:
        """Whether this process delivers itself, so that its own appends need no notification."""
        return bool(self._owners)

    @property
    def recently_disconnected(self) -> bool:
        """Whether this connection is lost, or was within the last `TROUBLED_S`."""
        return self._broken.is_set() or time.monotonic() - self._broke_s < TROUBLED_S

    def is_local(self, owner: int) -> bool:
        """Whether an owner of this store works in this process."""
        return self._key(owner) in _LOCAL_OWNERS

    @property
    def pid(self) -> int | None:
        return None if self._connection is None else self._connection.pid

    def take_hint(self) -> bool:
        rang, self._rang = self._rang, False
        return rang

    async def connect(self) -> None:
        """Connect, or log once that a pooler prevents it."""
        await self._pool.opened()
        if self._pool.pooled and self._pool.place.direct is None and not self.silent:
            self.silent, self.listens = True, False
            log.warning("%s", POOLED)
        async with self._busy:
            if not self.silent and (self._connection is None or self._connection.closed):
                with translated():
                    await self._connect()

    async def hold(self, owner: int) -> None:
        """Lock an owner's id until `free`, `close` or the end of this process."""
        async with self._busy:
            if not self.silent:
                connection = self._connection
                if connection is None or connection.closed:
                    connection = await self._connect()
                await connection.value(sql.owner_lock, owner)
            self._owners.add(owner)
            _LOCAL_OWNERS.add(self._key(owner))
        self.lease_keeper.start()
        if self._task is None:
            watch = self._heartbeat() if self.silent else self._watch()
            self._task = asyncio.get_running_loop().create_task(watch, name="holdfast:liveness")

    async def free(self, owner: int) -> None:
        self._owners.discard(owner)
        _LOCAL_OWNERS.discard(self._key(owner))
        async with self._busy:
            if self._connection is not None and not self._connection.closed:
                await self._connection.value(sql.owner_unlock, owner)

    async def close(self) -> None:
        """Release the locks before closing the connection, so that other processes see them free at once."""
        await self.lease_keeper.stop()
        await self._stop()
        _LOCAL_OWNERS.difference_update(map(self._key, self._owners))
        connection, self._connection = self._connection, None
        if connection is not None and not connection.closed:
            try:
                await connection.run("SELECT pg_advisory_unlock_all()")
                await connection.close()
            except FAULTS:
                connection.drop()

    async def _stop(self) -> None:
        """Let the task end by itself: cancelled while it connects, it would leave a half-open connection."""
        self._closing = True
        self._broken.set()
        if self._heard is not None and not self._heard.done():
            self._heard.set_result(None)
        while self._task is not None:
            done, _ = await asyncio.wait({self._task}, timeout=STOP_WAIT_S)
            if done:
                self._task = None
            else:
                self._task.cancel()

    async def _connect(self) -> PooledConnection:
        connection = await self._hosts.connect()
        if self._pool.place.direct is not None and (await connection.look()).pooled:
            connection.drop()
            raise BadConfig(_DIRECT_IS_POOLED)
        await connection.script(_KEEPALIVES)
        self._broken.clear()
        connection.raw.add_termination_listener(lambda _: self._broken.set())
        await connection.raw.add_listener(CHANNEL, self._on_notify)
        self._connection = connection
        return connection

    def _on_notify(self, connection: object, pid: int, channel: str, payload: str) -> None:
        if payload.startswith("probe"):
            if self._heard is not None and not self._heard.done() and payload == self._probe_text():
                self._heard.set_result(None)
        elif pid not in self._pool.pids:
            self._rang = True
            self._changed("events")

    async def _watch(self) -> None:
        """Probe every `PROBE_EVERY_S`; replace a connection that broke or no longer receives notifications."""
        while not self._closing:
            if not self._broken.is_set() and await self._probe() and not self._closing:
                # Not wait_for: on Python 3.11 it swallows a cancellation that comes together with the answer.
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(PROBE_EVERY_S):
                        await self._broken.wait()
            elif not self._closing:
                await self._reconnect()
                self._broke_s = time.monotonic()

    async def _heartbeat(self) -> None:
        """Without a lock: update the owner rows every `PROBE_EVERY_S` to show that this process lives."""
        while not self._closing:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(PROBE_EVERY_S):
                    await self._broken.wait()
            try:
                for owner in sorted(self._owners):
                    asked_ms = self._pool.clock.boot_ms()
                    for (now_ms,) in await self._pool.rows(sql.owner_seen, owner):
                        self._pool.clock.learn(now_ms, asked_ms)
            except StoreError as error:
                log.info("the owner row could not be updated: %s", error.message)

    async def _probe(self) -> bool:
        """False if notifications arrived before and no longer do. If they never arrived, polling finds new events."""
        self._probes += 1
        self._heard = asyncio.get_running_loop().create_future()
        asked_ms = self._pool.clock.boot_ms()
        try:
            rows = await self._pool.rows(sql.owner_probe, CHANNEL, self._probe_text(), sorted(self._owners))
            self._pool.clock.learn(rows[0][1], asked_ms)
            async with asyncio.timeout(PROBE_WAIT_S):
                await self._heard
        except TimeoutError:
            if self.listens is None:
                log.warning(NO_LISTEN)
                self.listens = False
            return not self.listens
        except (StoreError, *FAULTS):
            return not self._broken.is_set()
        self.listens = True
        return True

    async def _reconnect(self) -> None:
        """Retry until connected and all owners are locked. Then report a change: notifications may have been missed."""
        for attempt in range(1_000_000):
            pause_s = BACKOFF_S[min(attempt, len(BACKOFF_S) - 1)]
            await asyncio.sleep(pause_s * (1 + self._chance.fraction()))
            if self._closing:
                return
            try:
                async with self._busy:
                    if self._connection is not None:
                        self._connection.drop()
                    connection = await self._connect()
                    locked = [await connection.value(sql.owner_lock, owner) for owner in sorted(self._owners)]
                if all(locked):
                    for owner in self._owners:
                        await self._pool.rows(sql.owner_back, owner)
                    self._rang = True
                    self._changed("events")
                    return
            except (HoldfastError, *FAULTS) as error:
                log.info("the liveness connection to the database is down: %s", translate(error).message)

    def _key(self, owner: int) -> tuple[str, str, int]:
        return self._pool.place.dsn, self._pool.place.schema, owner

    def _probe_text(self) -> str:
        return f"probe {id(self)} {self._probes}"
