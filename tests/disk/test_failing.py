"""A failing disk and vanishing files: the store stops, reports it, and has every commit at the next start."""

from __future__ import annotations

import asyncio
import re

import pytest

from holdfast.daemon.loop import Loop
from holdfast.domain.delivery import Delivered
from holdfast.domain.errors import StoreError, StoreFailed
from holdfast.domain.event import new_event
from holdfast.operations.duties.change_watch import ChangeWatch
from holdfast.operations.duties.checkpointer import Checkpointer
from holdfast.proof.power_cuts.recorder import EIO_READ, EIO_SYNC, EIO_WRITE, Fault
from holdfast.store.sqlite.store import SqliteStore
from holdfast.testing.clock import SeededChance
from holdfast.testing.suite.harness import Harness

FAULTS = [("write", "-wal", EIO_WRITE), ("sync", "-wal", EIO_SYNC)]


async def accepted_in(store: SqliteStore) -> list[str]:
    return [event.id for event in await store.events.read("s", 0, 1000)]


async def fill(store: SqliteStore, count: int = 5) -> list[str]:
    return [one.id for _ in range(count) for one in await store.events.append([new_event("t", stream="s")])]


@pytest.mark.parametrize(("kind", "file", "code"), FAULTS)
async def test_a_failing_disk_ends_all_writing_and_loses_nothing(shelf, kind: str, file: str, code: int) -> None:
    store = shelf.open()
    accepted = await fill(store)
    shelf.disk.fault = Fault(kind, file, code, times=1)
    with pytest.raises(StoreFailed, match="the disk failed"):
        await store.events.append([new_event("t", "in doubt", stream="s")])
    for _ in range(3):  # the disk works again, but nobody knows what it forgot: a sync is never tried twice
        with pytest.raises(StoreFailed):
            await store.events.append([new_event("t", "refused", stream="s")])
        with pytest.raises(StoreFailed):
            await store.deliveries.reclaim()
    assert shelf.disk.fault.met == 1
    await store.close()
    again = shelf.open(driver="apsw")
    assert (await accepted_in(again))[:5] == accepted
    assert await again.maintenance.check() == []
    assert not any("refused" in str(event.payload) for event in await again.events.read("s", 0, 100))
    await again.close()


@pytest.mark.parametrize("skip", range(0, 12, 3))
async def test_a_disk_that_fails_at_any_write_of_a_settlement_leaves_it_whole_or_undone(shelf, skip: int) -> None:
    async def open_store(name, clock, chance, keep):
        return shelf.open(keep=keep)

    harness = await Harness.start(open_store)
    await harness.contract()
    id = await harness.send()
    claim = await harness.take()
    shelf.disk.fault = Fault("write", "-wal", EIO_WRITE, skip=skip)
    try:
        settled = await harness.settle(claim, Delivered())
    except StoreFailed:
        settled = False
    shelf.disk.fault = None
    await harness.crash()
    row = await harness.row(id)
    assert (row.state, row.attempts) in ([("delivered", 1)] if settled else [("delivered", 1), ("pending", 0)])
    assert await harness.faults() == []
    await harness.close()


async def test_a_checkpoint_that_cannot_sync_is_fatal_for_the_writer_too(shelf) -> None:
    store = shelf.open()
    accepted = await fill(store)
    shelf.disk.fault = Fault("sync", "", EIO_SYNC, times=1)
    loop = Loop(SeededChance(1))
    loop.add(Checkpointer(store.maintenance))
    async with asyncio.timeout(60):
        error = await loop.fatal
    assert "the disk failed" in error.message
    with pytest.raises(StoreFailed):
        await store.events.append([new_event("t")])
    assert "the disk failed" in loop.health()["checkpoint"]
    await loop.stop()
    await store.close()
    again = shelf.open(driver="apsw")
    assert await accepted_in(again) == accepted
    await again.close()


async def test_a_disk_that_cannot_be_read_says_so(shelf) -> None:
    store = shelf.open()
    await store.events.append([new_event("t", "x" * 5000, stream=f"s{i}") for i in range(200)])
    await store.maintenance.checkpoint()
    await store.close()
    store = shelf.open()
    shelf.disk.fault = Fault("read", "", EIO_READ)
    with pytest.raises(StoreError):
        await store.events.read("s100", 0, 100)
    assert await store.maintenance.check() != []
    shelf.disk.fault = None
    await store.close()


@pytest.mark.parametrize("driver", ["apsw", "sqlite3"])
@pytest.mark.parametrize("file", ["", "-wal", "-shm"])
@pytest.mark.parametrize("how", ["deleted", "replaced"])
async def test_a_file_that_vanishes_is_noticed_within_a_second(shelf, driver: str, file: str, how: str) -> None:
    store = shelf.open(driver=driver)
    await fill(store)
    store.maintenance.changed_elsewhere()
    path = shelf.path.with_name(shelf.path.name + file)
    path.rename(path.with_name("aside"))
    if how == "replaced":
        path.write_bytes(path.with_name("aside").read_bytes())
    shelf.clock.advance(1)
    loop = Loop(SeededChance(1))
    loop.add(ChangeWatch(store.maintenance, lambda: None))
    async with asyncio.timeout(60):
        error = await loop.fatal
    assert f"{path} was moved or replaced" in error.message
    with pytest.raises(StoreFailed, match="moved or replaced"):
        await store.events.append([new_event("t")])
    await loop.stop()
    await store.close()


async def test_unchanged_files_cause_no_report(shelf) -> None:
    store = shelf.open()
    other = shelf.open(keep=False)
    for _ in range(5):
        await fill(other, 1)
        store.maintenance.wal_max_bytes = 0
        await store.maintenance.checkpoint()
        store.maintenance.check_file()
    await other.close()
    store.maintenance.check_file()
    await store.close()


async def damaged(shelf, at: int, data: bytes | None) -> bytes:
    """A store of some size, with bytes put in at a place; None: cut off there."""
    store = shelf.open(driver="apsw")
    await store.events.append([new_event("t", "x" * 3000, stream=f"s{i % 7}") for i in range(300)])
    await store.close()
    content = shelf.path.read_bytes()
    at = at if at >= 0 else len(content) // 2 // 4096 * 4096
    shelf.path.write_bytes(content[:at] if data is None else content[:at] + data + content[at + len(data) :])
    return shelf.path.read_bytes()


DAMAGE = {
    "a flipped bit in the header's name": (0, b"R"),
    "a flipped bit in the header's page size": (16, b"\x11"),
    "a flipped bit in the header's format": (44, b"\x00\x00\x00\x24"),
    "a zeroed first page": (0, bytes(4096)),
    "a zeroed page in the middle": (-1, bytes(4096)),
    "a flipped bit in the kind of a table's page": (-1, b"\xad"),
    "cut off in the middle": (-1, None),
    "cut off in the first page": (1000, None),
}


@pytest.mark.parametrize("what", DAMAGE)
async def test_damage_is_reported_and_the_file_left_as_it_was(shelf, what: str) -> None:
    content = await damaged(shelf, *DAMAGE[what])
    found = await faults_of(shelf)
    assert found != []
    assert re.search("damaged|malformed|invalid|unsupported|page", found[0])
    assert shelf.path.read_bytes() == content


async def faults_of(shelf) -> list[str]:
    """What the check finds, or why the store does not even open."""
    try:
        store = shelf.open(driver="apsw")
    except StoreError as error:
        return [error.message]
    found = await store.maintenance.check()
    await store.close()
    return list(found)
