"""The runtime inside an application: workers that live as long as the application does.

On SQLite one process keeps a file. If that is another one (a daemon, or a sibling worker of the same application),
this one publishes all the same, says so in its log, and takes over when the keeper goes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

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
    """Deliver while the block runs. The settings are those of `holdfast.yml`, where there is one."""
    workers = Workers(outbox, load_config(find_home().config))
    await workers.start()
    try:
        yield workers
    finally:
        await workers.stop()


class Workers:
    """The duties of one application: at work, or waiting for the keeper to go."""

    def __init__(self, outbox: Application, config: Config, chance: Chance | None = None) -> None:
        self._outbox, self._config, self._chance = outbox, config, chance or SystemChance()
        self._stopping = asyncio.Event()
        self._waiting: asyncio.Task[None] | None = None
        self._runtime: Runtime | None = None

    @property
    def at_work(self) -> bool:
        """Whether this process delivers, rather than waits for another to go."""
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
                "this application publishes, and another process delivers: %s. It takes over when that one goes",
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
            log.error("the application stops while handlers still run. %s", runtime.left())

    async def _begin(self) -> None:
        """Be the keeper and begin to work, or say who the keeper is."""
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
        """Put this application's contracts beside the keeper's, so that no event of theirs goes unmatched."""
        store = await self._open(keep=False)
        try:
            await register(store.contracts, self._outbox.modules(), self._outbox.contracts.all())
        finally:
            await store.close()

    async def _open(self, keep: bool) -> Store:
        # sqlite3, not apsw: the application has the same file open, and two SQLite libraries would break its locks.
        options: dict[str, Any] = {"driver": "sqlite3", "keep": keep, "own": False, "what": "an application"}
        return await in_thread("files", partial(open_store, self._outbox.url, **options, **self._config.room))

    async def _take_over(self) -> None:
        """Knock at the keeper's lock, never quite in step with others who do the same."""
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
                log.exception("this application could not take over the deliveries, and tries again")
                continue
            log.info("the other process has gone: this application delivers now")
            return


def _log_fatal(fatal: asyncio.Future[StoreFailed]) -> None:
    if not fatal.cancelled():
        log.critical("nothing is delivered until the application is restarted: %s", fatal.result())
