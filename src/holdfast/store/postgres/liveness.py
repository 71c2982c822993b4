"""Liveness: one direct connection of a working process. It proves that the process is alive and receives notifications.

An owner's life is a session advisory lock: the server frees it the moment the connection ends, however that came
about. On the same connection we LISTEN for hints that others appended events. Both need a session that is really
ours. Behind a pooler such as PgBouncer there is none, unless the store's URL says how to get past it (`direct=`): then
this process is silent. It notes in its owner's row now and then that it lives, and work is found by polling.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
from typing import Any

from holdfast.domain.errors import BadConfig, HoldfastError, StoreError
from holdfast.ports import Chance
from holdfast.store.postgres.errors import FAULTS, translate
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
DEAF = "LISTEN does not work on this connection: new events are found by polling"
SILENT = (
    "a pooler such as PgBouncer stands before this database: LISTEN and session locks do not work through it, so new "
    "events are found by polling, and the work of a process that dies is taken over when its lease ends; give the "
    "store's URL direct=HOST:PORT of the server itself to have both"
)
_POOLED_TOO = "direct= in the store's URL leads to a pooler too, not to the server itself"

log = logging.getLogger("holdfast.store")

_HERE: set[tuple[str, str, int]] = set()
"""Every owner that works in this process, whichever store it works on: database, schema, id."""


class Liveness:
    def __init__(self, pool: Pool, chance: Chance, changed: Callable[[str], None]) -> None:
        self._pool, self._chance, self._changed = pool, chance, changed
        place = pool.place
        self._dsn = place.direct or place.dsn
        self.lease_keeper = LeaseKeeper(self._dsn, place.schema, lambda: sorted(self._owners))
        self.silent = False
        """Whether there is no session of our own: a pooler is in the way."""
        self._session: PooledConnection | None = None
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
        """Whether hints arrive; None until the first probe has come back, or has not."""

    def notes(self) -> list[str]:
        """What an operator should know about this connection."""
        if self.silent:
            return [SILENT]
        return [DEAF] if self.listens is False else []

    @property
    def working(self) -> bool:
        """Whether this process does the work itself, so that its own appends need ring nobody."""
        return bool(self._owners)

    @property
    def troubled(self) -> bool:
        """Whether this very connection is lost, or was a moment ago."""
        return self._broken.is_set() or time.monotonic() - self._broke_s < TROUBLED_S

    def is_here(self, owner: int) -> bool:
        """Whether an owner of this store works in this process."""
        return self._key(owner) in _HERE

    @property
    def pid(self) -> int | None:
        return None if self._session is None else self._session.pid

    def take_hint(self) -> bool:
        rang, self._rang = self._rang, False
        return rang

    async def lay(self) -> None:
        """Connect, or find that there is no way past a pooler and say so once."""
        await self._pool.opened()
        if self._pool.pooled and self._pool.place.direct is None and not self.silent:
            self.silent, self.listens = True, False
            log.warning("%s", SILENT)
        async with self._busy:
            if not self.silent and (self._session is None or self._session.closed):
                with translated():
                    await self._connect()

    async def hold(self, owner: int) -> None:
        """Lock an owner's id for as long as this process lives."""
        async with self._busy:
            if not self.silent:
                session = self._session
                if session is None or session.closed:
                    session = await self._connect()
                await session.value(sql.owner_lock, owner)
            self._owners.add(owner)
            _HERE.add(self._key(owner))
        self.lease_keeper.start()
        if self._task is None:
            watch = self._tell() if self.silent else self._watch()
            self._task = asyncio.get_running_loop().create_task(watch, name="holdfast:liveness")

    async def free(self, owner: int) -> None:
        self._owners.discard(owner)
        _HERE.discard(self._key(owner))
        async with self._busy:
            if self._session is not None and not self._session.closed:
                await self._session.value(sql.owner_unlock, owner)

    async def close(self) -> None:
        """Give the locks back before the connection, so that whoever looks next sees them free."""
        await self.lease_keeper.stop()
        await self._stop()
        _HERE.difference_update(map(self._key, self._owners))
        session, self._session = self._session, None
        if session is not None and not session.closed:
            try:
                await session.run("SELECT pg_advisory_unlock_all()")
                await session.close()
            except FAULTS:
                session.drop()

    async def _stop(self) -> None:
        """Ask the watch to end rather than cancel it: cancelled while it connects, it would leave half a connection."""
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
        session = await PooledConnection.connect(self._dsn, self._pool.place.schema)
        if self._pool.place.direct is not None and (await session.look()).pooled:
            session.drop()
            raise BadConfig(_POOLED_TOO)
        await session.script(_KEEPALIVES)
        self._broken.clear()
        session.raw.add_termination_listener(lambda _: self._broken.set())
        await session.raw.add_listener(CHANNEL, self._on_notify)
        self._session = session
        return session

    def _on_notify(self, connection: Any, pid: int, channel: str, payload: str) -> None:
        if payload.startswith("probe"):
            if self._heard is not None and not self._heard.done() and payload == self._probe_text():
                self._heard.set_result(None)
        elif pid not in self._pool.pids:
            self._rang = True
            self._changed("events")

    async def _watch(self) -> None:
        """Probe now and then; a connection that broke or fell silent is replaced."""
        while not self._closing:
            if not self._broken.is_set() and await self._probe() and not self._closing:
                # Not wait_for: on Python 3.11 it swallows a cancellation that comes together with the answer.
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(PROBE_EVERY_S):
                        await self._broken.wait()
            elif not self._closing:
                await self._lay_anew()
                self._broke_s = time.monotonic()

    async def _tell(self) -> None:
        """Where no lock can: say now and then that we live."""
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
                log.info("this process could not say that it lives: %s", error.message)

    async def _probe(self) -> bool:
        """False: it worked once and does not any more. Where it never worked, polling has to do."""
        self._probes += 1
        self._heard = asyncio.get_running_loop().create_future()
        asked_ms = self._pool.clock.boot_ms()
        try:
            told = await self._pool.rows("SELECT pg_notify($1, $2), {schema}.now_ms()", CHANNEL, self._probe_text())
            self._pool.clock.learn(told[0][1], asked_ms)
            async with asyncio.timeout(PROBE_WAIT_S):
                await self._heard
        except TimeoutError:
            if self.listens is None:
                log.warning(DEAF)
                self.listens = False
            return not self.listens
        except (StoreError, *FAULTS):
            return not self._broken.is_set()
        self.listens = True
        return True

    async def _lay_anew(self) -> None:
        """Until it succeeds: connect, lock what is ours, and look once, since hints may have been missed."""
        for attempt in range(1_000_000):
            pause_s = BACKOFF_S[min(attempt, len(BACKOFF_S) - 1)]
            await asyncio.sleep(pause_s * (1 + self._chance.fraction()))
            if self._closing:
                return
            try:
                async with self._busy:
                    if self._session is not None:
                        self._session.drop()
                    session = await self._connect()
                    held = [await session.value(sql.owner_lock, owner) for owner in sorted(self._owners)]
                if all(held):
                    for owner in self._owners:
                        await self._pool.rows(sql.owner_back, owner)
                    self._rang = True
                    self._changed("events")  # notifications may have been missed meanwhile
                    return
            except (HoldfastError, *FAULTS) as error:
                log.info("the liveness connection to the database is down: %s", translate(error).message)

    def _key(self, owner: int) -> tuple[str, str, int]:
        return self._pool.place.dsn, self._pool.place.schema, owner

    def _probe_text(self) -> str:
        return f"probe {id(self)} {self._probes}"
