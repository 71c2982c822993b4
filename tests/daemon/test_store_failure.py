"""Damage that only a read meets ends the daemon as damage that a write meets; and a full disk is seen everywhere."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from daemon import Daemon, wait_until
from holdfast.config.config import load_config
from holdfast.daemon.runtime import Runtime
from holdfast.domain.errors import StoreFailed, StoreFull
from holdfast.domain.event import new_event
from holdfast.operations.answers.encode import encode
from holdfast.store.open import open_store
from holdfast.store.sqlite.connection import ApswConnection
from holdfast.store.sqlite.disk import DiskSpace
from holdfast.store.sqlite.store import SqliteStore

PAGE = 4096


async def test_a_read_that_meets_damage_ends_all_work(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path}/x.db", keep=True)
    runtime = Runtime(store, load_config(None), None)
    await runtime.start()

    def damaged(connection: object) -> None:
        raise StoreFailed("the database file is damaged (simulated)")

    with pytest.raises(StoreFailed):
        await store._reader.run(damaged)  # type: ignore[attr-defined]
    assert runtime.loop.fatal.done()
    with pytest.raises(StoreFailed):
        await store.owners.register()
    await runtime.abandon()


def test_a_daemon_whose_file_is_damaged_while_it_runs_stops_at_the_first_read_that_shows_it(tmp_path: Path) -> None:
    with Daemon(tmp_path / "home") as daemon:
        for _ in range(50):
            daemon.request("POST", "/api/events", {"type": "a", "to": "handler:nobody"})
        # A page that is written again after the checkpoint would be read from the log, and its damage stay hidden.
        daemon.wait_for("/api/status", lambda answer: (answer["unrouted"], answer["pending"]) == (0, 50))
        path = daemon.home / "holdfast.db"
        connection = ApswConnection(path)
        wait_until(lambda: connection.rows("PRAGMA wal_checkpoint(TRUNCATE)")[0][0] == 0, 60, lambda: daemon.log)
        ((page,),) = connection.rows("SELECT rootpage FROM sqlite_schema WHERE name = 'holdfast_deliveries'")
        connection.close()
        with path.open("r+b") as file:
            file.seek((page - 1) * PAGE)
            file.write(b"\xff" * PAGE)
        process = daemon._process
        assert process is not None

        def notices() -> bool:
            with contextlib.suppress(OSError):
                daemon.request("POST", "/api/events", {"type": "b"})  # makes readers forget the pages they know
                daemon.request("GET", "/api/deliveries?limit=1000")
            return process.poll() is not None

        wait_until(notices, 60, lambda: daemon.log)
        assert process.wait(60) == 1
        assert "Stopped because the store failed" in daemon.log
        assert "Stopped cleanly." not in daemon.log


async def test_below_the_low_water_mark_status_and_readiness_say_so(tmp_path: Path) -> None:
    disk_space = DiskSpace(1 << 20, 0, lambda folder: 1 << 10)
    store = SqliteStore.open(tmp_path / "x.db", keep=True, disk_space=disk_space)
    runtime = Runtime(store, load_config(None), None)
    try:
        await runtime.start()
        status = encode(await runtime.operations.status.show())
        assert status["healthy"] is False
        assert "nothing new is accepted" in status["not_accepting"]
        with pytest.raises(StoreFull):
            await runtime.operations.events.append(new_event("a"))
    finally:
        await runtime.stop(0.0)


def test_readiness_is_refused_while_nothing_is_accepted(tmp_path: Path) -> None:
    with Daemon(
        tmp_path / "home", config="disk: {low_water_bytes: 900000000000000, ballast_bytes: 0}"
    ).launch() as daemon:
        wait_until(lambda: (daemon.home / "address").exists(), 60, lambda: daemon.log)
        status, answer = daemon.request("GET", "/readyz")
        assert status == 503
        assert "nothing new is accepted" in answer["detail"]
        assert daemon.request("POST", "/api/events", {"type": "a"})[0] == 503
        assert daemon.request("GET", "/api/status")[1]["healthy"] is False
        assert daemon.cli("doctor", "--json").json["healthy"] is False
