"""Changes of files are noticed without polling, and commits of other processes with them."""

from __future__ import annotations

import asyncio
import sqlite3
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from holdfast.file_watch import FileWatch, NoWatch, open_file_watch
from holdfast.operations.duties.change_watch import BACKSTOP_S, POLL_S, ChangeWatch
from holdfast.store.open import migrate_store, open_store

HANGS_S = 60.0
PUBLISH = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("PRAGMA wal_autocheckpoint = 0")
for line in sys.stdin:
    connection.execute("INSERT INTO holdfast_publish (type) VALUES (?)", (line.strip(),))
    print("committed", flush=True)
"""


@pytest.fixture
async def files() -> AsyncIterator[FileWatch]:
    watch = open_file_watch()
    yield watch
    watch.close()


async def test_a_file_that_is_written_moved_or_removed_is_noticed(tmp_path: Path, files: FileWatch) -> None:
    noticed = asyncio.Event()
    assert files.watch(tmp_path, lambda name: name == "wanted", noticed.set)
    steps: list[Callable[[], object]] = [
        lambda: (tmp_path / "wanted").write_text("a"),
        lambda: (tmp_path / "wanted").write_text("b"),
        lambda: (tmp_path / "wanted").rename(tmp_path / "else"),
        lambda: (tmp_path / "else").rename(tmp_path / "wanted"),
        lambda: (tmp_path / "wanted").unlink(),
    ]
    for step in steps:
        noticed.clear()
        step()
        async with asyncio.timeout(HANGS_S):
            await noticed.wait()
        await asyncio.sleep(0.02)  # what else this step caused


async def test_other_files_are_not_noticed(tmp_path: Path, files: FileWatch) -> None:
    noticed, sentinel = [], asyncio.Event()
    files.watch(tmp_path, lambda name: name == "wanted", lambda: noticed.append(1))
    files.watch(tmp_path, lambda name: name == "last", sentinel.set)
    (tmp_path / "other").write_text("a")
    (tmp_path / "last").write_text("b")
    async with asyncio.timeout(HANGS_S):
        await sentinel.wait()
    assert noticed == []


async def test_a_folder_that_cannot_be_watched_is_polled(tmp_path: Path, files: FileWatch) -> None:
    assert not files.watch(tmp_path / "missing", lambda name: True, lambda: None)


async def test_every_commit_of_another_process_is_noticed_without_polling(tmp_path: Path, files: FileWatch) -> None:
    path = tmp_path / "app.db"
    migrate_store(f"sqlite:///{path}", own=False)
    store = open_store(f"sqlite:///{path}", keep=True, own=False)
    changed, wake = asyncio.Event(), asyncio.Event()
    watch = ChangeWatch(store.maintenance, changed.set)
    watch.wake = wake.set
    watch.watch(files)
    assert watch._idle_s == BACKSTOP_S

    async def look() -> None:
        """As the loop does it, but with a backstop that never comes."""
        while True:
            wake.clear()
            delay_s = await watch.tick()
            try:
                async with asyncio.timeout(None if delay_s == BACKSTOP_S else delay_s):
                    await wake.wait()
            except TimeoutError:
                pass

    looking = asyncio.create_task(look())
    writer = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PUBLISH, str(path), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    assert writer.stdin is not None
    assert writer.stdout is not None
    try:
        for number in range(30):
            changed.clear()
            writer.stdin.write(f"t.{number}\n".encode())
            async with asyncio.timeout(HANGS_S):
                await changed.wait()
                await writer.stdout.readline()
            await asyncio.sleep(0.06 if number % 3 else 0.0)  # after rest, and in the middle of looking
    finally:
        writer.stdin.close()
        await writer.wait()
        looking.cancel()
        await store.close()


async def test_without_notices_commits_are_found_by_polling(tmp_path: Path) -> None:
    path = tmp_path / "app.db"
    migrate_store(f"sqlite:///{path}", own=False)
    store = open_store(f"sqlite:///{path}", keep=True, own=False)
    found: list[int] = []
    watch = ChangeWatch(store.maintenance, lambda: found.append(1))
    watch.watch(NoWatch())
    assert await watch.tick() == POLL_S
    connection = sqlite3.connect(path)
    connection.execute("INSERT INTO holdfast_publish (type) VALUES ('a')")
    connection.commit()
    connection.close()
    assert await watch.tick() == POLL_S
    assert found == [1]
    await store.close()
