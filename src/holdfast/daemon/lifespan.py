"""The runtime inside an application, started and stopped with it.

On SQLite one process at a time is the keeper of a file. If another process is (a daemon, or another worker of the same
application), this one only publishes, logs that, and takes over when the keeper ends.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from holdfast.config.config import Config, load_config
from holdfast.daemon.runtime import Runtime
from holdfast.domain.errors import KeeperHeld, StoreFailed
from holdfast.home import find_home
from holdfast.operations.registration import register
from holdfast.ports import Application, Chance, SystemChance, in_thread
from holdfast.store.open import open_store
from holdfast.store.roles.events import Events
from holdfast.store.roles.store import Store

RETRY_S = 0.3

log = logging.getLogger("holdfast")


@asynccontextmanager
async def working(outbox: Application) -> AsyncIterator[Workers]:
    """Deliver while the block runs, with the settings of `holdfast.yml` if it exists."""
    workers = Workers(outbox, load_config(find_home().config))
    await workers.start()
    try:
        yield workers
    finally:
        await workers.stop()


class Workers:
    """The runtime of one application: working, or waiting for the keeper to end."""

    def __init__(self, outbox: Application, config: Config, chance: Chance | None = None) -> None:
        self._outbox, self._config, self._chance = outbox, config, chance or SystemChance()
        self._stopping = asyncio.Event()
        self._waiting: asyncio.Task[None] | None = None
        self._runtime: Runtime | None = None

    @property
    def at_work(self) -> bool:
        """Whether this process delivers. False while another process is the keeper."""
        return self._runtime is not None

    @property
    def events(self) -> Events | None:
        """The events of the open store; None while this process waits for another to go."""
        return None if self._runtime is None else self._runtime.store.events

    async def start(self) -> None:
        try:
            await self._begin()
        except KeeperHeld as held:
            log.warning(
                "this application only publishes; another process delivers: %s. It takes over when that one ends",
                str(held).partition(". Stop it first")[0],
            )
            await self._register()
            self._waiting = asyncio.get_running_loop().create_task(self._take_over(), name="holdfast:take-over")

    async def stop(self) -> None:
        self._stopping.set()
        if self._waiting is not None:
            await self._waiting
        runtime, self._runtime = self._runtime, None
        if runtime is None:
            return
        if runtime.loop.fatal.done():
            await runtime.abandon()
        elif await runtime.stop():
            log.error("the application stopped while handlers were still running. %s", runtime.describe_unfinished())

    async def _begin(self) -> None:
        """Become the keeper and start to work. Raises `KeeperHeld` if another process is the keeper."""
        outbox = self._outbox
        store = await self._open(keep=True)
        try:
            runtime = Runtime(
                store,
                self._config,
                None,
                handlers=outbox.handlers,
                normalizers=outbox.normalizers,
                contracts=outbox.contracts.all(),
                modules=outbox.modules,
            )
            await runtime.start()
        except BaseException:
            await store.close()
            raise
        runtime.loop.fatal.add_done_callback(_log_fatal)
        self._runtime = runtime

    async def _register(self) -> None:
        """Store this application's contracts although it is not the keeper, so that no matching event is missed."""
        store = await self._open(keep=False)
        try:
            await register(store.contracts, self._outbox.modules(), self._outbox.contracts.all())
        finally:
            await store.close()

    async def _open(self, keep: bool) -> Store:
        # sqlite3, not apsw: the application may have the same file open, and two SQLite libraries in one process break
        # each other's POSIX locks.
        opening = partial(
            open_store, self._outbox.url, driver="sqlite3", keep=keep, own=False, what="an application",
            **self._config.disk_limits,
        )  # fmt: skip
        return await in_thread("files", opening)

    async def _take_over(self) -> None:
        """Try to become the keeper until it succeeds, at random intervals so that waiting processes do not collide."""
        while True:
            try:
                async with asyncio.timeout(RETRY_S * (1 + self._chance.fraction())):
                    await self._stopping.wait()
                    return
            except TimeoutError:
                pass
            try:
                await self._begin()
            except KeeperHeld:
                continue
            except Exception:
                log.exception("this application could not take over delivery; it will try again")
                continue
            log.info("the other process has ended; this application delivers now")
            return


def _log_fatal(fatal: asyncio.Future[StoreFailed]) -> None:
    if not fatal.cancelled():
        log.critical("delivery has stopped until the application is restarted: %s", fatal.result())
