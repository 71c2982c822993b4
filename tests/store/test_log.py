"""Preallocation of the log: nothing is ever overwritten, and no preallocated byte is taken for a commit."""

from __future__ import annotations

import asyncio
import shutil
import struct
import sys
from pathlib import Path
from random import Random

import pytest

from holdfast.domain.event import new_event
from holdfast.store.sqlite.disk import DiskSpace
from holdfast.store.sqlite.log import STEP_BYTES, Log
from holdfast.store.sqlite.store import DRIVERS, SqliteStore, inline_executor

PLENTY = DiskSpace(free=lambda folder: 1 << 40)
FRAME_BYTES = 4096 + 24
HEAD_BYTES = 32


def opened(path: Path, driver: str = "apsw", *, keep: bool = True, disk_space: DiskSpace = PLENTY) -> SqliteStore:
    return SqliteStore.open(path, driver=driver, keep=keep, executor=inline_executor, disk_space=disk_space)


def log_of(path: Path) -> Path:
    return path.with_name(path.name + "-wal")


def used_bytes(log: Path) -> int:
    """The end of the last frame that belongs to the log: one that carries the salt of its head."""
    raw = log.read_bytes()
    salt, end = raw[16:24], HEAD_BYTES
    while len(raw) >= end + FRAME_BYTES and struct.unpack_from("8s", raw, end + 8)[0] == salt:
        end += FRAME_BYTES
    return end


def count(path: Path, driver: str = "apsw") -> int:
    connection = DRIVERS[driver](path)
    try:
        assert connection.rows("PRAGMA integrity_check") == [("ok",)]
        return int(connection.rows("SELECT count(*) FROM holdfast_events")[0][0])
    finally:
        connection.close()


async def append(store: SqliteStore, times: int) -> None:
    for _ in range(times):
        await store.events.append([new_event("t", "x" * 1000)])


async def test_small_commits_are_written_to_a_preallocated_log(tmp_path: Path, driver: str) -> None:
    path = tmp_path / "h.db"
    store = opened(path, driver)
    await append(store, 3)
    length = log_of(path).stat().st_size
    assert length > used_bytes(log_of(path)) + STEP_BYTES // 2
    await append(store, 10)
    assert log_of(path).stat().st_size == length
    await append(store, 300)
    assert 0 < log_of(path).stat().st_size - used_bytes(log_of(path)) <= STEP_BYTES
    await store.close()
    assert count(path, driver) == 313


@pytest.mark.parametrize("tail", ["as it is", "cut off", "garbage"])
async def test_after_a_power_cut_every_commit_is_there(tmp_path: Path, tail: str) -> None:
    path, after = tmp_path / "h.db", tmp_path / "after.db"
    store = opened(path)
    await append(store, 120)
    shutil.copy(path, after)
    shutil.copy(log_of(path), log_of(after))
    await store.close()
    end = used_bytes(log_of(after))
    assert log_of(after).stat().st_size > end
    with log_of(after).open("r+b") as log:
        if tail == "cut off":
            log.truncate(end)
        elif tail == "garbage":
            log.seek(end)
            log.write(Random(1).randbytes(log_of(after).stat().st_size - end))
    assert count(after) == 120
    again = opened(after)
    await append(again, 5)
    await again.close()
    assert count(after) == 125


WRITES = """
import apsw, sys
connection = apsw.Connection(sys.argv[1])
connection.set_busy_timeout(30000)
connection.execute("PRAGMA wal_autocheckpoint = 0")
for number in range(150):
    connection.execute("INSERT INTO holdfast_publish (type) VALUES ('other')")
"""


async def test_commits_of_other_processes_are_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "h.db"
    store = opened(path)
    others = [await asyncio.create_subprocess_exec(sys.executable, "-c", WRITES, str(path)) for _ in range(2)]
    gone = asyncio.gather(*[other.wait() for other in others])
    own = 0
    while not gone.done():
        await append(store, 5)
        own += 5
        await store.maintenance.checkpoint()  # the log restarts in between
        await asyncio.sleep(0)
    assert await gone == [0, 0]
    await store.close()
    assert count(path) == own + 300


async def test_large_commits_do_not_preallocate_the_log(tmp_path: Path) -> None:
    path = tmp_path / "h.db"
    store = opened(path)
    for _ in range(5):
        await store.events.append([new_event("t", "x" * 8000) for _ in range(50)])
    assert log_of(path).stat().st_size == used_bytes(log_of(path))
    await store.close()


async def test_a_truncated_log_is_preallocated_again(tmp_path: Path) -> None:
    path = tmp_path / "h.db"
    store = opened(path)
    store.maintenance.wal_max_bytes = 0
    await append(store, 10)
    await store.maintenance.checkpoint()
    assert log_of(path).stat().st_size == 0
    await append(store, 4)
    assert log_of(path).stat().st_size > STEP_BYTES
    await store.close()
    assert count(path) == 14


@pytest.mark.parametrize(("keep", "free"), [(False, 1 << 40), (True, 40 << 20)])
async def test_only_the_keeper_preallocates_and_only_with_free_disk_space(
    tmp_path: Path, keep: bool, free: int
) -> None:
    path = tmp_path / "h.db"
    left = [free]
    store = opened(path, keep=keep, disk_space=DiskSpace(free=lambda folder: left[0]))
    await append(store, 1)
    left[0] = free - (20 << 20)  # below the mark, if it was near
    store._disk.look()
    await store._writer.run(lambda connection: connection.run("UPDATE holdfast_meta SET value = value"))
    for _ in range(3):
        await store._writer.run(lambda c: c.run("INSERT INTO holdfast_publish (type) VALUES ('t')"))
    assert log_of(path).stat().st_size == used_bytes(log_of(path))
    await store.close()


async def test_a_log_that_cannot_be_preallocated_is_left_unchanged(tmp_path: Path) -> None:
    log = Log(tmp_path / "missing", lambda: True)
    log.extend()
    log.extend()
    log.close()
    assert not (tmp_path / "missing").exists()
