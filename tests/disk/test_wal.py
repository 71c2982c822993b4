"""The log: it grows under a long reader, that can be seen, and it shrinks again when the reader is gone."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from holdfast.domain.event import new_event
from holdfast.store.sqlite.disk import MIB
from holdfast.store.sqlite.maintenance import WAL_MAX_BYTES
from holdfast.store.sqlite.store import DRIVERS, SqliteStore


async def write_much(store: SqliteStore, count: int = 300) -> None:
    for _ in range(count // 50):
        await store.events.append([new_event("t", "x" * 8000) for _ in range(50)])
        await store.maintenance.checkpoint()


async def test_without_readers_the_log_stays_small(shelf) -> None:
    store = shelf.open()
    await write_much(store)
    first = store.maintenance.wal_bytes()
    for _ in range(5):
        await write_much(store)
    assert store.maintenance.wal_bytes() <= first * 1.5
    assert store.maintenance.gauges()["wal_bytes"] == store.maintenance.wal_bytes()
    await store.close()


async def test_under_a_steady_load_the_log_restarts(shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commits that come during a checkpoint must not keep the log growing for as long as the load lasts."""
    monkeypatch.setattr("holdfast.store.sqlite.maintenance.RESTART_FRAMES", 50)
    store = shelf.open()
    ending = False

    async def load() -> int:
        count = 0
        while not ending:
            await store.events.append([new_event("t", "x" * 8000)])
            count += 1
        return count

    async with asyncio.timeout(120):
        writers = [asyncio.create_task(load()) for _ in range(4)]
        for _ in range(100):
            await store.maintenance.checkpoint()
            await asyncio.sleep(0.01)
        ending = True
        written = 8000 * sum(await asyncio.gather(*writers))
    assert store.maintenance.wal_bytes() < written / 2
    await store.close()


async def test_a_long_reader_lets_the_log_grow_and_its_end_lets_it_shrink(shelf) -> None:
    store = shelf.open()
    store.maintenance.wal_max_bytes = MIB
    reader = DRIVERS["apsw"](shelf.path)
    reader.run("BEGIN")
    reader.rows("SELECT count(*) FROM holdfast_events")
    await write_much(store, 600)
    grown = store.maintenance.gauges()["wal_bytes"]
    assert grown > 4 * MIB
    async with asyncio.timeout(60):  # the reader holds back the log, but nothing waits for its end
        await store.maintenance.checkpoint()
        await store.events.append([new_event("t")])
    reader.run("COMMIT")
    await store.maintenance.checkpoint()
    assert store.maintenance.wal_bytes() == 0
    await store.events.append([new_event("t")])
    reader.close()
    await store.close()


@pytest.mark.parametrize("driver", ["apsw", "sqlite3"])
async def test_with_any_library_the_log_falls_back_under_its_bound(shelf, driver: str) -> None:
    """An old SQLite gets no command to cut the log; it does so with the commit after a whole checkpoint."""
    store = shelf.open(driver=driver)
    store._writer._connection.rows(f"PRAGMA journal_size_limit = {MIB}")
    reader = DRIVERS[driver](shelf.path)
    reader.run("BEGIN")
    reader.rows("SELECT count(*) FROM holdfast_events")
    await write_much(store, 600)
    assert store.maintenance.wal_bytes() > 4 * MIB
    reader.run("COMMIT")
    reader.close()
    await store.maintenance.checkpoint()
    await store.events.append([new_event("t")])
    assert store.maintenance.wal_bytes() <= MIB
    await store.close()


async def test_the_bound_is_set_where_it_is_needed(shelf) -> None:
    store = shelf.open()
    assert store._writer._connection.rows("PRAGMA journal_size_limit") == [(WAL_MAX_BYTES,)]
    await store.close()


async def test_a_store_that_was_closed_leaves_no_log(shelf) -> None:
    store = shelf.open()
    await write_much(store, 50)
    await store.close()
    assert not has_log(shelf.path)


def has_log(path: Path) -> bool:
    return path.with_name(path.name + "-wal").exists()
