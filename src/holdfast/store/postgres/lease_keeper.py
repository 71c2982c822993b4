"""The heart: a thread that keeps the leases of a process whose event loop is busy.

A handler that blocks the loop must not be run a second time elsewhere while its process lives. The loop renews leases
itself; only when it has been silent for a quarter of a lease does this thread, on a connection of its own. A process
that was stopped as a whole does not renew, so its work is taken over when the lease ends; and a loop that never comes
back is given up after a while.
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
from holdfast.store.postgres.pooled_connection import PooledConnection
from holdfast.store.postgres.statements import sql

LEASE_MS = 30_000
GIVE_UP_S = 900.0
JOIN_S = 5.0
STEP_MAX_S = 0.5

log = logging.getLogger("holdfast.store")


class LeaseKeeper:
    """`owners` are those whose leases it keeps; `lease_ms` is the shortest lease they have."""

    def __init__(self, dsn: str, schema: str, owners: Callable[[], Iterable[int]]) -> None:
        self._dsn, self._schema, self._owners = dsn, schema, owners
        self._over = threading.Event()
        self._throttle = LogThrottle(log, burst=3)
        self._thread: threading.Thread | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._seen = time.monotonic()
        self.lease_ms = LEASE_MS
        self.kept = 0
        """How often it had to step in."""

    def start(self) -> None:
        if self._thread is None:
            self._beat(asyncio.get_running_loop())
            self._thread = threading.Thread(target=self._watch, name="holdfast:lease-keeper", daemon=True)
            self._thread.start()

    async def stop(self) -> None:
        self._over.set()
        if self._timer is not None:
            self._timer.cancel()
        if self._thread is not None:
            await in_thread("files", partial(self._thread.join, JOIN_S))

    @property
    def _step_s(self) -> float:
        return min(STEP_MAX_S, self.lease_ms / 8000)

    def _beat(self, loop: asyncio.AbstractEventLoop) -> None:
        """On the loop: it is not busy, for here it is."""
        self._seen = time.monotonic()
        self._timer = loop.call_later(self._step_s, self._beat, loop)

    def _watch(self) -> None:
        """In the thread."""
        while not self._over.wait(self._step_s):
            silent_s = time.monotonic() - self._seen
            if self.lease_ms / 4000 < silent_s < GIVE_UP_S:
                self._keep()

    def _keep(self) -> None:
        try:
            held = asyncio.run(self._prolong())
        except FAULTS as error:
            why = translate(error).message
            self._throttle.log(logging.WARNING, why, "the leases of a busy process could not be renewed: %s", why)
            return
        if held:
            self.kept += 1

    async def _prolong(self) -> int:
        session = await PooledConnection.connect(self._dsn, self._schema, cached=False)
        try:
            async with session.raw.transaction():
                return sum([await session.run(sql.lease_prolong, owner, self.lease_ms) for owner in self._owners()])
        finally:
            await session.close()
