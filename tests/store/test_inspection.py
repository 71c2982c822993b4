"""The check of the whole file after an unclean stop: nothing waits for it, not even a daemon that ends."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

from holdfast.domain.event import new_event
from holdfast.operations.duties.integrity_check import START_AFTER_S, IntegrityCheck
from holdfast.store.sqlite.store import DRIVERS, SqliteStore


class LongLook:
    """A connection whose check takes until it is interrupted, or let go."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self.begun, self.over = threading.Event(), threading.Event()

    def rows(self, text: str) -> Any:
        self.begun.set()
        assert self.over.wait(30)
        return self._connection.rows(text)

    def interrupt(self) -> None:
        self.over.set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


async def looking(store: SqliteStore, path: Path, driver: str) -> tuple[LongLook, asyncio.Task[list[str]]]:
    long = LongLook(DRIVERS[driver](path))
    store._inspector._open = lambda: long  # type: ignore[method-assign,assignment,return-value]
    task = asyncio.create_task(store.maintenance.check())
    assert await asyncio.to_thread(long.begun.wait, 30)
    return long, task


async def test_the_check_blocks_nothing(tmp_path: Path, driver: str) -> None:
    store = SqliteStore.open(tmp_path / "h.db", driver=driver, keep=True)
    long, task = await looking(store, tmp_path / "h.db", driver)
    async with asyncio.timeout(20):
        await store.events.append([new_event("t")])
        await store.maintenance.checkpoint()
        await store.events.append([new_event("t")])
        assert (await store.operator.figures()).events == 2
    assert not task.done()
    long.over.set()
    assert await task == []
    await store.close()


async def test_a_store_that_is_closed_does_not_wait_either(tmp_path: Path, driver: str) -> None:
    store = SqliteStore.open(tmp_path / "h.db", driver=driver, keep=True)
    long, task = await looking(store, tmp_path / "h.db", driver)
    async with asyncio.timeout(20):
        await store.close()
        assert long.over.is_set()
        await task


async def test_it_begins_when_the_start_is_over() -> None:
    class Maintenance:
        asked = 0

        async def check(self) -> list[str]:
            self.asked += 1
            return []

    maintenance = Maintenance()
    duty = IntegrityCheck(maintenance)  # type: ignore[arg-type]
    assert await duty.tick() == START_AFTER_S
    assert maintenance.asked == 0
    assert await duty.tick() is None
    assert await duty.tick() is None
    assert maintenance.asked == 1
