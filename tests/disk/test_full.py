"""A full disk: new events are refused early, accepted ones are finished, and intake opens again by itself."""

from __future__ import annotations

import asyncio
import errno
import os
import sqlite3
import subprocess
import sys
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import aiohttp
import apsw
import pytest

from holdfast.config.config import load_config
from holdfast.daemon.runtime import Runtime
from holdfast.daemon.serve import Server, bind
from holdfast.domain.address import parse_address
from holdfast.domain.contract import Contract
from holdfast.domain.delivery import Delivered
from holdfast.domain.errors import BadConfig, StoreError, StoreFailed, StoreFull
from holdfast.domain.event import new_event
from holdfast.proof.power_cuts import recorder
from holdfast.proof.power_cuts.recorder import EIO_WRITE, NO_SPACE, Fault
from holdfast.store.open import open_store
from holdfast.store.sqlite.connection import StdlibConnection, translate
from holdfast.store.sqlite.disk import Disk, DiskSpace, free_bytes
from holdfast.store.sqlite.store import SqliteStore
from holdfast.surfaces.rest.app import build_app
from holdfast.surfaces.rest.request_filter import BearerTokens
from holdfast.testing.clock import ManualClock
from holdfast.testing.suite.harness import Harness

MIB = 1 << 20


async def harness_on(shelf) -> Harness:
    async def open_store(name, clock, chance, keep):
        return shelf.open(keep=keep)

    harness = Harness(open_store)
    harness.clock = shelf.clock
    await harness.reopen()
    await harness.contract()
    return harness


async def test_below_the_mark_intake_is_refused_and_other_work_continues(shelf) -> None:
    harness = await harness_on(shelf)
    waiting = await harness.send()
    shelf.free = 2 * MIB
    shelf.clock.advance(0.5)
    with pytest.raises(StoreFull, match=r"only 2\.0 MiB are free in .*free some space"):
        await harness.emit()
    with pytest.raises(StoreFull, match="nothing new is accepted"):
        await harness.contract("another")
    await harness.store.contracts.put(Contract("c", parse_address("handler:h")), None, keep=True)
    assert await harness.end(Delivered()) == waiting
    assert await harness.store.contracts.set_active("c", False)
    assert (await harness.row(waiting)).state == "delivered"
    assert await harness.faults() == []
    await harness.close()


async def test_intake_opens_by_itself_when_space_is_free_again(shelf) -> None:
    store = shelf.open()
    shelf.free = 0
    shelf.clock.advance(0.5)
    with pytest.raises(StoreFull):
        await store.events.append([new_event("t")])
    assert store.maintenance.gauges() == {
        "wal_bytes": store.maintenance.wal_bytes(),
        "disk_free_bytes": 0,
        "ballast_bytes": 0,
        "intake_open": False,
    }
    shelf.free = 10 * MIB
    shelf.clock.advance(0.5)
    await store.events.append([new_event("t")])
    shelf.clock.advance(0.5)
    store.maintenance.changed_elsewhere()
    assert store.maintenance.gauges()["ballast_bytes"] == MIB
    await store.close()


async def test_the_ballast_allocates_blocks_and_only_for_the_keeper(shelf, tmp_path: Path) -> None:
    visitor = Disk(tmp_path / "visited.db", ManualClock(), False, DiskSpace(3 * MIB, MIB))
    assert not visitor.ballast.exists()
    store = shelf.open()
    store.maintenance.changed_elsewhere()
    ballast = shelf.path.with_name("h.db.ballast")
    assert ballast.stat().st_blocks * 512 >= MIB
    assert ballast.stat().st_mode & 0o777 == 0o600
    await store.close()
    assert not ballast.exists()


async def test_a_write_on_a_full_disk_deletes_the_ballast_and_the_next_succeeds(shelf) -> None:
    harness = await harness_on(shelf)
    waiting = await harness.send()
    claim = await harness.take()
    ballast = shelf.path.with_name("h.db.ballast")
    harness.store.maintenance.changed_elsewhere()
    assert ballast.exists()
    shelf.disk.fault = Fault("write", "-wal", NO_SPACE)
    with pytest.raises(StoreFull, match="disk is full"):
        await harness.settle(claim, Delivered())
    assert not ballast.exists()
    shelf.disk.fault = None  # what the ballast held is room now
    assert await harness.settle(claim, Delivered())
    assert (await harness.row(waiting)).state == "delivered"
    for seconds in (0.5, 4.5):  # not at once: it would take the room away from those who need it
        assert not ballast.exists()
        shelf.clock.advance(seconds)
        harness.store.maintenance.changed_elsewhere()
    assert ballast.exists()
    await harness.close()


async def test_a_start_on_a_full_disk_deletes_the_ballast_first(shelf) -> None:
    await shelf.open().close()
    ballast = shelf.path.with_name("h.db.ballast")
    ballast.write_bytes(bytes(MIB))  # as a crash would leave it
    shelf.free = 0
    store = shelf.open()
    assert not ballast.exists()
    await store.close()


@pytest.mark.parametrize("file", ["-wal", ""])
async def test_a_full_disk_at_any_write_of_a_commit_or_checkpoint_loses_nothing(shelf, file: str) -> None:
    """Every write in turn finds the disk full; the caller gets an error, and the same store works afterwards."""
    store = shelf.open()
    accepted: list[str] = []
    for skip in range(40):
        shelf.disk.fault = Fault("write", file, NO_SPACE, skip=skip, times=1)
        for _ in range(3):
            try:
                accepted += [a.id for a in await store.events.append([new_event("t", "x" * 9000, stream="s")])]
                await store.maintenance.checkpoint()
            except StoreFull:
                assert shelf.disk.fault.met == 1
        shelf.disk.fault = None
    assert [event.id for event in await store.events.read("s", 0, 1000)] == accepted
    assert len(accepted) > 40
    assert await store.maintenance.check() == []
    await store.close()
    again = shelf.open(driver="apsw")
    assert [event.id for event in await again.events.read("s", 0, 1000)] == accepted
    await again.close()


async def test_a_read_only_file_refuses_intake_and_can_be_read(shelf) -> None:
    store = shelf.open()
    await store.events.append([new_event("t", stream="s")])
    shelf.disk.read_only = True
    reader = shelf.open(keep=False)
    with pytest.raises(StoreFull, match="read-only"):
        await reader.events.append([new_event("t")])
    assert len(await reader.events.read("s", 0, 10)) == 1
    await reader.close()
    await store.close()


async def test_a_read_only_file_system_is_named_before_anything_is_tried(shelf) -> None:
    def free(folder: Path) -> int:
        if shelf.free == 0:
            raise OSError(errno.EROFS, "Read-only file system")
        return free_bytes(folder)

    store = shelf.open(disk_space=DiskSpace(0, 0, free))
    await store.events.append([new_event("t", stream="s")])
    shelf.free = 0
    shelf.clock.advance(1)
    with pytest.raises(StoreFull, match=r"is read-only: .* can be read"):
        await store.events.append([new_event("t")])
    assert len(await store.events.read("s", 0, 10)) == 1
    shelf.free = 1
    shelf.clock.advance(1)
    await store.events.append([new_event("t")])
    await store.close()


async def test_a_folder_that_cannot_be_written_is_a_clear_error(shelf) -> None:
    shelf.path.with_name("h.db.keeper").mkdir()
    with pytest.raises(StoreError, match=r"cannot be written .*make the folder writable"):
        shelf.open()


def test_unknown_free_space_does_not_close_intake(tmp_path: Path) -> None:
    def free(folder: Path) -> int:
        raise OSError(errno.ENOSYS, "no such call")

    disk = Disk(tmp_path / "h.db", ManualClock(), True, DiskSpace(3 * MIB, MIB, free))
    disk.admit()
    assert disk.gauges()["disk_free_bytes"] is None


def test_a_low_water_mark_that_the_ballast_alone_would_satisfy_is_refused() -> None:
    with pytest.raises(ValueError, match="one and a half times"):
        DiskSpace(low_water_bytes=MIB, ballast_bytes=MIB)


async def test_over_http_a_full_disk_is_503_with_retry_after_and_opens_again_by_itself(tmp_path: Path) -> None:
    room = {"free": 0}
    store = open_store(
        f"sqlite:///{tmp_path}/h.db", keep=True, disk_space=DiskSpace(3 * MIB, MIB, free=lambda folder: room["free"])
    )
    runtime = Runtime(store, load_config(None), None)
    await runtime.start()
    listener = bind("127.0.0.1", 0)
    tokens = BearerTokens("t", runtime.operations.tokens.scope_of)
    server = Server(build_app(runtime.operations, tokens, {"127.0.0.1"}, 10_000), listener)
    await server.start()
    url = f"http://127.0.0.1:{listener.getsockname()[1]}/api/events"
    async with aiohttp.ClientSession(headers={"Authorization": "Bearer t"}) as session:
        async with session.post(url, json={"type": "t.x"}) as answer:
            assert (answer.status, answer.headers["Retry-After"]) == (503, "1")
            assert "MiB are free" in (await answer.json(content_type=None))["detail"]
        async with session.get(url) as answer:
            assert answer.status == 200
        room["free"] = 100 * MIB
        async with asyncio.timeout(60):
            while await status_of(session.post(url, json={"type": "t.x"})) != 201:
                await asyncio.sleep(0.05)
            while not (tmp_path / "h.db.ballast").exists():
                await asyncio.sleep(0.05)
    await server.stop()
    await runtime.stop()


async def status_of(request: AbstractAsyncContextManager[aiohttp.ClientResponse]) -> int:
    async with request as answer:
        return answer.status


def test_on_a_full_disk_settling_pruning_and_checkpoints_continue(tmp_path: Path) -> None:
    assert on_a_small_disk("small_disk.py", tmp_path) == "done\n"


@pytest.mark.slow
def test_a_daemon_under_load_survives_a_full_disk_and_drains_by_itself(tmp_path: Path) -> None:
    """REST refuses with 503 and Retry-After, the command line in a sentence; nothing that was accepted is lost."""
    said = on_a_small_disk("small_daemon.py", tmp_path)
    print(said)
    assert said.endswith("done\n")


def on_a_small_disk(name: str, tmp_path: Path) -> str:
    """The output of a program that runs on a small disk of its own."""
    script = Path(__file__).with_name(name)
    command = ["unshare", "--user", "--map-root-user", "--mount", sys.executable, str(script), str(tmp_path)]
    try:
        ran = subprocess.run(command, capture_output=True, text=True, timeout=240)
    except FileNotFoundError:
        pytest.skip("there is no unshare here")
    if ran.returncode == 77 or "unshare:" in ran.stderr:
        pytest.skip("a small disk cannot be mounted here")
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_a_shared_memory_file_that_cannot_grow_is_a_full_disk() -> None:
    assert isinstance(translate(apsw.SQLITE_IOERR_SHMSIZE, "disk I/O error"), StoreFull)
    assert isinstance(translate(apsw.SQLITE_IOERR_SHMMAP, "disk I/O error"), StoreFailed)


@pytest.mark.parametrize("file", ["-wal", ""])
async def test_a_used_up_quota_is_a_full_disk_and_not_a_broken_one(
    shelf, monkeypatch: pytest.MonkeyPatch, file: str
) -> None:
    monkeypatch.setattr(recorder._Vfs, "xGetLastError", lambda self: (errno.EDQUOT, "quota"), raising=False)
    store = shelf.open()
    accepted = [one.id for one in await store.events.append([new_event("t", stream="s")])]
    shelf.disk.fault = Fault("write", file, EIO_WRITE)
    with pytest.raises(StoreFull, match="disk is full"):
        await append_and_checkpoint(store)
    shelf.disk.fault = None
    accepted += [one.id for one in await store.events.append([new_event("t", "after", stream="s")])]
    kept = [event.id for event in await store.events.read("s", 0, 100)]
    assert set(accepted) <= set(kept)
    assert await store.maintenance.check() == []
    await store.close()


async def test_a_write_that_fails_for_another_reason_is_fatal_all_the_same(shelf, monkeypatch) -> None:
    monkeypatch.setattr(recorder._Vfs, "xGetLastError", lambda self: (errno.EIO, "broken"), raising=False)
    store = shelf.open()
    shelf.disk.fault = Fault("write", "-wal", EIO_WRITE)
    with pytest.raises(StoreFailed):
        await store.events.append([new_event("t")])
    shelf.disk.fault = None
    await store.close()


def test_with_the_standard_library_a_write_shows_whether_the_disk_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = StdlibConnection(tmp_path / "h.db")
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = apsw.SQLITE_IOERR_WRITE
    assert isinstance(connection._translate(error), StoreFailed)

    def refuse(descriptor: int) -> None:
        raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))

    monkeypatch.setattr(os, "fsync", refuse)
    assert isinstance(connection._translate(error), StoreFull)
    connection.close()


def test_the_marks_are_settings(tmp_path: Path) -> None:
    path = tmp_path / "holdfast.yml"
    path.write_text("disk: {low_water_bytes: 6291456, ballast_bytes: 4194304}\n")
    config = load_config(path)
    store = open_store(f"sqlite:///{tmp_path}/h.db", keep=True, **config.disk_limits)
    store.maintenance.changed_elsewhere()
    assert (tmp_path / "h.db.ballast").stat().st_size == 4 * MIB
    asyncio.run(store.close())
    for text, message in (
        ("disk: {low_water_bytes: 100, ballast_bytes: 100}", "one and a half times"),
        ("disk: {low_water_bytes: 0}", "set both to 0"),
        ("disk: {ballast_bytes: -1}", "positive"),
        ("disk: {ballast_bytes: 1.5}", "whole number"),
    ):
        path.write_text(text)
        with pytest.raises(BadConfig, match=message):
            load_config(path)
    path.write_text("disk: {low_water_bytes: 0, ballast_bytes: 0}")
    assert load_config(path).disk_limits == {"low_water_bytes": 0, "ballast_bytes": 0}


async def append_and_checkpoint(store: SqliteStore) -> None:
    await store.events.append([new_event("t", "x" * 9000, stream="s")])
    await store.maintenance.checkpoint()
