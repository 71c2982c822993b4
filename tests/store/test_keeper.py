"""One keeper at a time, proven by a lock that the system frees by itself."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.domain.errors import KeeperHeld
from holdfast.store.sqlite.store import SqliteStore, inline_executor

KEEPER = """
import sys
from pathlib import Path
from holdfast.store.sqlite.store import SqliteStore, inline_executor
store = SqliteStore.open(Path(sys.argv[1]), keep=True, what="the other one", executor=inline_executor)
print("kept", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def other(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that keeps the file."""
    command = [sys.executable, "-c", KEEPER, str(tmp_path / "h.db")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "kept\n"
        yield process
        process.kill()


def files(folder: Path) -> list[Path]:
    return sorted(folder.iterdir())


def keep(path: Path) -> SqliteStore:
    return SqliteStore.open(path, keep=True, executor=inline_executor)


async def test_a_second_keeper_is_refused_with_the_name_of_the_first(
    tmp_path: Path, other: subprocess.Popen[str]
) -> None:
    with pytest.raises(KeeperHeld) as refused:
        keep(tmp_path / "h.db")
    assert f"process {other.pid} (the other one, since 2" in str(refused.value)


async def test_the_lock_is_free_the_moment_its_holder_is_killed(tmp_path: Path, other: subprocess.Popen[str]) -> None:
    os.kill(other.pid, signal.SIGKILL)
    other.wait(60)
    store = keep(tmp_path / "h.db")
    assert (await store.owners.register()).id >= 1
    await store.close()


async def test_a_process_that_is_not_the_keeper_may_open_the_store_too(
    tmp_path: Path, other: subprocess.Popen[str]
) -> None:
    store = SqliteStore.open(tmp_path / "h.db", executor=inline_executor)
    assert await store.routing.backlog() == 0
    await store.close()


async def test_a_keeper_that_cannot_open_the_file_releases_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "h.db"
    path.write_bytes(b"garbage " * 1000)
    with pytest.raises(Exception, match="damaged"):
        keep(path)
    path.unlink()
    store = keep(path)
    await store.close()


async def test_closing_releases_the_lock(tmp_path: Path) -> None:
    for _ in range(3):
        store = keep(tmp_path / "h.db")
        await store.close()


async def test_only_the_owner_may_read_database_and_lock(tmp_path: Path) -> None:
    store = keep(tmp_path / "h.db")
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in files(tmp_path)}
    assert set(modes) >= {"h.db", "h.db.keeper"}
    assert set(modes.values()) == {0o600}
    await store.close()
