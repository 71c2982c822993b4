"""A backup taken during writes is a complete store."""

from __future__ import annotations

import asyncio
import stat
from pathlib import Path

from holdfast.domain.delivery import Delivered
from holdfast.domain.event import new_event
from holdfast.store.sqlite.store import SqliteStore
from holdfast.testing.store_suite import Harness, OpenStore
from store_shell import Shell

TABLES = "SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'holdfast%' ORDER BY name;"


async def test_a_backup_holds_everything_there_was(open_store: OpenStore, tmp_path: Path, shell: Shell) -> None:
    harness = await Harness.start(open_store)
    await harness.contract("c", secret="s", ordered=True)
    for _ in range(5):
        await harness.send(stream="s", payload={"a": "é"})
    await harness.end(Delivered())
    await harness.store.cursors.ensure("publisher", "s")
    await harness.store.maintenance.backup(tmp_path / "copy.db")
    for table in [row["name"] for row in shell.rows(tmp_path / "store.db", TABLES)]:
        query = f"SELECT * FROM {table} ORDER BY 1, 2;"
        if table in ("holdfast_again", "holdfast_unmatched"):
            query = f"SELECT * FROM {table} ORDER BY 1;"
        assert shell.run(tmp_path / "copy.db", query).stdout == shell.run(tmp_path / "store.db", query).stdout, table
    assert stat.S_IMODE((tmp_path / "copy.db").stat().st_mode) == 0o600
    await harness.close()


async def test_a_restored_backup_goes_on_working(open_store: OpenStore, tmp_path: Path) -> None:
    harness = await Harness.start(open_store)
    await harness.contract("c", ordered=True)
    ids = [await harness.send(stream="s") for _ in range(3)]
    assert await harness.end(Delivered()) == ids[0]
    await harness.take()
    await harness.store.maintenance.backup(tmp_path / "restored.db")
    await harness.close()
    copy = await Harness.start(open_store, "restored")
    await copy.store.deliveries.reclaim()
    assert [await copy.end(Delivered()) for _ in range(2)] == ids[1:]
    assert (await copy.emit(stream="s")).seq == 4
    assert await copy.faults() == []
    await copy.close()


async def test_a_backup_while_writing_is_a_whole_moment(tmp_path: Path, driver: str) -> None:
    store = SqliteStore.open(tmp_path / "h.db", driver=driver, keep=True)
    stop = asyncio.Event()

    async def write(stream: str) -> int:
        count = 0
        while not stop.is_set():
            await store.events.append([new_event("t", "x" * 2000, stream=stream), new_event("t", stream=stream)])
            count += 2
        return count

    writers = [asyncio.ensure_future(write(f"s{i}")) for i in range(4)]
    await store.events.append([new_event("first", stream="before")])
    await store.maintenance.backup(tmp_path / "copy.db")
    stop.set()
    written = await asyncio.gather(*writers)
    assert min(written) > 0
    await store.close()
    copy = SqliteStore.open(tmp_path / "copy.db", driver=driver)
    assert await copy.maintenance.check() == []
    assert len(await copy.events.read("before", 0, 10)) == 1
    for row in (await copy.events.streams(None, 100)).items:
        found = [event.seq for event in await copy.events.read(row.id, 0, 100_000)]
        assert found == list(range(1, row.head + 1))
        assert row.id == "before" or row.head % 2 == 0
    await copy.close()
