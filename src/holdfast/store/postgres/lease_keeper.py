"""A thread that renews the leases of a process whose event loop is blocked.

A handler that blocks the loop must not be run a second time elsewhere while its process lives. Normally the loop renews
leases itself. This thread renews them, on a connection of its own, when the loop has not run for a quarter of a lease.
A process that was stopped as a whole does not renew, so its work is taken over when the lease ends. After `GIVE_UP_S`
the thread stops renewing for a loop that never runs again.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Iterable
from functools import partial

from holdfast.logs import LogThrottle
from holdfast.ports import in_thread
from holdfast.store.postgres.errors import FAULTS, translate
from holdfast.store.postgres.hosts import Hosts
from holdfast.store.postgres.ready_queue import PostgresReadyQueue

LEASE_MS = 30_000
GIVE_UP_S = 900.0
JOIN_S = 5.0
STEP_MAX_S = 0.5

log = logging.getLogger("holdfast.store")


class LeaseKeeper:
    """Renews the leases of `owners`. `lease_ms` is the shortest lease they have."""

    def __init__(self, hosts: Hosts, owners: Callable[[], Iterable[int]]) -> None:
        self._hosts, self._owners = hosts, owners
        self._ready = PostgresReadyQueue()
        self._stopped = threading.Event()
        self._throttle = LogThrottle(log, burst=3)
        self._thread: threading.Thread | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._loop_ran_s = time.monotonic()
        self.lease_ms = LEASE_MS
        self.kept = 0
        """How often the thread renewed leases."""

    def start(self) -> None:
        if self._thread is None:
            self._record_loop(asyncio.get_running_loop())
            self._thread = threading.Thread(target=self._watch, name="holdfast:lease-keeper", daemon=True)
            self._thread.start()

    async def stop(self) -> None:
        self._stopped.set()
        if self._timer is not None:
            self._timer.cancel()
        if self._thread is not None:
            await in_thread("files", partial(self._thread.join, JOIN_S))

    @property
    def _step_s(self) -> float:
        return min(STEP_MAX_S, self.lease_ms / 8000)

    def _record_loop(self, loop: asyncio.AbstractEventLoop) -> None:
        """Runs on the event loop, and so records that the loop is not blocked."""
        self._loop_ran_s = time.monotonic()
        self._timer = loop.call_later(self._step_s, self._record_loop, loop)

    def _watch(self) -> None:
        """The thread's main loop."""
        while not self._stopped.wait(self._step_s):
            blocked_s = time.monotonic() - self._loop_ran_s
            if self.lease_ms / 4000 < blocked_s < GIVE_UP_S:
                self._renew_leases()

    def _renew_leases(self) -> None:
        try:
            renewed = asyncio.run(self._renew())
        except FAULTS as error:
            why = translate(error).message
            self._throttle.log(logging.WARNING, why, "the leases of a blocked process could not be renewed: %s", why)
            return
        if renewed:
            self.kept += 1

    async def _renew(self) -> int:
        connection = await self._hosts.connect(cached=False)
        try:
            async with connection.raw.transaction():
                return sum([await self._ready.prolong(connection, owner, self.lease_ms) for owner in self._owners()])
        finally:
            await connection.close()
