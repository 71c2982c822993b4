"""Limits: a newer store, a network disk, a damaged file, a full disk."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable
from pathlib import Path

import pytest

from holdfast.domain.errors import StoreError, StoreFailed, StoreFull, StoreMissing, StoreTooNew
from holdfast.domain.event import new_event
from holdfast.store.file_system import find_kind, refuse_network
from holdfast.store.sqlite.connection import tune
from holdfast.store.sqlite.migrate import require, version_known
from holdfast.store.sqlite.store import DRIVERS, SqliteStore, inline_executor


def opened(path: Path, driver: str, **more: bool) -> SqliteStore:
    return SqliteStore.open(path, driver=driver, executor=inline_executor, **more)


async def test_a_newer_store_is_refused_naming_the_version_it_needs(tmp_path: Path, driver: str) -> None:
    path = tmp_path / "h.db"
    await opened(path, driver).close()
    connection = DRIVERS[driver](path)
    connection.run("UPDATE holdfast_meta SET value = '9999' WHERE key = 'schema_version'")
    connection.run("UPDATE holdfast_meta SET value = '7.8.9' WHERE key = 'made_by'")
    connection.close()
    with pytest.raises(StoreTooNew, match=rf"newer or unreleased .*7\.8\.9.* schema 9999, .* up to {version_known()}"):
        opened(path, driver)


async def test_a_database_without_our_tables_says_how_to_make_them(tmp_path: Path, driver: str) -> None:
    connection = DRIVERS[driver](tmp_path / "app.db")
    tune(connection)
    with pytest.raises(StoreMissing, match="holdfast db migrate"):
        require(connection)
    with pytest.raises(StoreError):
        connection.rows("SELECT * FROM holdfast_events")
    connection.close()


async def test_a_store_that_is_not_there_is_made_only_on_request(tmp_path: Path, driver: str) -> None:
    with pytest.raises(StoreError, match="there is no database"):
        opened(tmp_path / "h.db", driver, create=False)
    assert os.listdir(tmp_path) == []
    with pytest.raises(StoreError, match="does not exist"):
        opened(tmp_path / "nowhere" / "h.db", driver)
    (tmp_path / "folder").mkdir()
    with pytest.raises(StoreError, match="is not a file"):
        opened(tmp_path / "folder", driver)


MOUNTS = """\
20 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw
21 20 0:40 / /mnt/home rw shared:5 - nfs4 server:/home rw
22 21 0:41 / /mnt/home/local rw - tmpfs tmpfs rw
23 20 0:42 / /mnt/with\\040space rw - 9p host rw
broken
"""


@pytest.mark.parametrize(
    ("folder", "kind"),
    [
        ("/srv/data", "ext4"),
        ("/mnt/home", "nfs4"),
        ("/mnt/home/ann/state", "nfs4"),
        ("/mnt/home/local/x", "tmpfs"),
        ("/mnt/homely", "ext4"),
        ("/mnt/with space/x", "9p"),
    ],
)
def test_the_file_system_of_a_folder_is_that_of_its_nearest_mount(tmp_path: Path, folder: str, kind: str) -> None:
    (tmp_path / "mounts").write_text(MOUNTS)
    assert find_kind(Path(folder), tmp_path / "mounts") == kind


def test_an_unknown_file_system_is_not_refused(tmp_path: Path) -> None:
    assert find_kind(tmp_path, tmp_path / "none") is None


@pytest.mark.parametrize("kind", ["nfs", "nfs4", "cifs", "smb3", "9p", "virtiofs", "fuse.sshfs"])
def test_network_file_systems_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.setattr("holdfast.store.file_system.find_kind", lambda folder, mounts: kind)
    with pytest.raises(StoreError, match=f"network file system \\({kind}\\)"):
        refuse_network(tmp_path)
    with pytest.raises(StoreError, match="network file system"):
        opened(tmp_path / "h.db", "apsw")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("garbage", [b"no", b"garbage " * 5000, b"SQLite format 3\x00" + b"\xff" * 5000])
def test_a_file_that_is_no_database_is_refused_and_left_as_it_was(tmp_path: Path, driver: str, garbage: bytes) -> None:
    path = tmp_path / "h.db"
    path.write_bytes(garbage)
    with pytest.raises(StoreFailed, match="damaged"):
        opened(path, driver)
    assert path.read_bytes() == garbage


async def test_damage_in_the_middle_is_found_and_never_repaired_silently(tmp_path: Path, driver: str) -> None:
    path = tmp_path / "h.db"
    store = opened(path, driver)
    await store.events.append([new_event("t", "x" * 3000, stream="s") for _ in range(300)])
    await store.close()
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(size // 2 // 4096 * 4096)
        file.write(b"\xaa" * 4096 * 8)
    damaged = path.read_bytes()
    store = opened(path, driver)
    assert await store.maintenance.check() != []
    with pytest.raises(StoreFailed):
        await store.events.read("s", 0, 1000)
    await store.close()
    assert path.read_bytes() == damaged


async def test_a_writer_that_met_damage_stops_for_good(tmp_path: Path, driver: str) -> None:
    """What cannot be trusted is not written to again by this process."""
    store = opened(tmp_path / "h.db", driver)

    def meet(connection: object) -> None:
        raise StoreFailed("the disk failed")

    with pytest.raises(StoreFailed):
        await store._writer.run(meet)
    with pytest.raises(StoreFailed):
        await store.events.append([new_event("t")])
    await store.close()


def leave_room(store: SqliteStore, pages: int) -> None:
    """No tiny disk without root: the writer's own limit on pages gives the same SQLITE_FULL."""
    connection = store._writer._connection
    used = connection.rows("PRAGMA page_count")[0][0]
    connection.rows(f"PRAGMA max_page_count = {used + pages}")


async def outcome(work: Awaitable[object]) -> object:
    (answer,) = await asyncio.gather(work, return_exceptions=True)
    return answer


async def test_a_full_disk_refuses_and_loses_nothing(tmp_path: Path, driver: str) -> None:
    store = opened(tmp_path / "h.db", driver, keep=True)
    await store.events.append([new_event("t", i, stream="s") for i in range(10)])
    leave_room(store, 20)
    accepted = 10
    while not isinstance(await outcome(store.events.append([new_event("t", "x" * 4000, stream="s")])), StoreFull):
        accepted += 1
    assert len(await store.events.read("s", 0, 1000)) == accepted
    assert await store.maintenance.check() == []
    leave_room(store, 100_000)
    assert (await store.events.append([new_event("t", stream="s")]))[0].seq == accepted + 1
    await store.close()


async def test_a_full_disk_fails_every_caller_of_a_shared_commit(tmp_path: Path, driver: str) -> None:
    """Each caller either gets an error that the store is full, or finds its event."""
    store = opened(tmp_path / "h.db", driver, keep=True)
    leave_room(store, 12)
    works = [store.events.append([new_event("t", "x" * 4000, stream=f"s{i}")]) for i in range(40)]
    answers = await asyncio.gather(*works, return_exceptions=True)
    assert {type(answer) for answer in answers} <= {list, StoreFull}
    assert StoreFull in {type(answer) for answer in answers}
    for i, answer in enumerate(answers):
        assert len(await store.events.read(f"s{i}", 0, 10)) == isinstance(answer, list)
    await store.close()


async def test_a_read_only_file_says_so(tmp_path: Path, driver: str) -> None:
    path = tmp_path / "h.db"
    await opened(path, driver).close()
    connection = DRIVERS[driver](path, readonly=True)
    with pytest.raises(StoreFull, match="read-only"):
        connection.run("DELETE FROM holdfast_events")
    connection.close()


async def test_a_file_replaced_while_in_use_is_noticed(tmp_path: Path, driver: str) -> None:
    path = tmp_path / "h.db"
    store = opened(path, driver)
    store.maintenance.check_file()
    path.rename(tmp_path / "moved.db")
    with pytest.raises(StoreFailed, match="moved or replaced"):
        store.maintenance.check_file()
    await store.close()
