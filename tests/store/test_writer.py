"""The writer: many callers share a commit, and the failure of one does not affect the others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from holdfast.domain.errors import DedupConflict, StoreBusy
from holdfast.domain.event import new_event
from holdfast.store.sqlite.connection import Connection, Params
from holdfast.store.sqlite.store import DRIVERS, SqliteStore, inline_executor
from holdfast.store.sqlite.writer import Writer


@pytest.fixture
async def store(tmp_path: Path, driver: str) -> AsyncIterator[SqliteStore]:
    """With threads, as in the daemon."""
    store = SqliteStore.open(tmp_path / "h.db", driver=driver, keep=True)
    yield store
    await store.close()


def writer_of(store: SqliteStore) -> Writer:
    return store._writer


async def seqs(store: SqliteStore, stream: str) -> list[int]:
    return [event.seq for event in await store.events.read(stream, 0, 1000)]


async def test_many_concurrent_appends_share_commits(store: SqliteStore) -> None:
    before = writer_of(store).commits
    appended = await asyncio.gather(*[store.events.append([new_event("t", stream="s")]) for _ in range(64)])
    assert sorted(one.seq for (one,) in appended) == list(range(1, 65))
    assert writer_of(store).commits - before < 64
    assert await seqs(store, "s") == list(range(1, 65))


async def test_a_failing_work_does_not_disturb_the_others_of_its_batch(store: SqliteStore) -> None:
    await store.events.append([new_event("t", 1, dedup_key="k")])

    def explode(connection: Connection) -> None:
        connection.run("INSERT INTO holdfast_publish (type, stream) VALUES ('t', 'lost')")
        raise RuntimeError("bang")

    before = writer_of(store).commits
    works = [store.events.append([new_event("t", i, stream="s")]) for i in range(10)]
    works.insert(3, store.events.append([new_event("t", 2, dedup_key="k")]))
    answers = await asyncio.gather(*works, writer_of(store).run(explode), return_exceptions=True)
    failed = [answer for answer in answers if isinstance(answer, BaseException)]
    assert [type(error) for error in failed] == [DedupConflict, RuntimeError]
    assert writer_of(store).commits - before < 12
    assert await seqs(store, "s") == list(range(1, 11))
    assert await store.events.stream("lost") is None


async def test_a_cancelled_caller_does_not_affect_the_others(store: SqliteStore) -> None:
    tasks = [asyncio.ensure_future(store.events.append([new_event("t", i, stream="s")])) for i in range(8)]
    await asyncio.sleep(0)
    tasks[3].cancel()
    done = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(done[3], asyncio.CancelledError)
    assert sum(isinstance(answer, list) for answer in done) == 7
    kept = await seqs(store, "s")
    assert kept == list(range(1, len(kept) + 1))
    assert len(kept) in (7, 8)
    await store.events.append([new_event("t", stream="after")])


async def test_a_single_caller_does_not_wait_for_a_batch(store: SqliteStore) -> None:
    before = writer_of(store).commits
    for _ in range(3):
        await store.events.append([new_event("t", stream="s")])
    assert writer_of(store).commits - before == 3


async def test_closing_waits_for_queued_works(store: SqliteStore, tmp_path: Path, driver: str) -> None:
    tasks = [asyncio.ensure_future(store.events.append([new_event("t", stream="s")])) for _ in range(20)]
    await asyncio.sleep(0)
    await store.close()
    assert len(await asyncio.gather(*tasks)) == 20
    again = SqliteStore.open(tmp_path / "h.db", driver=driver, executor=inline_executor)
    assert await seqs(again, "s") == list(range(1, 21))
    await again.close()


async def test_a_work_after_closing_is_refused(store: SqliteStore) -> None:
    await store.close()
    with pytest.raises(StoreBusy, match="this store is closed"):
        await store.events.append([new_event("t")])


async def test_another_process_holding_the_lock_is_waited_for(store: SqliteStore, tmp_path: Path, driver: str) -> None:
    other = DRIVERS[driver](tmp_path / "h.db")
    other.run("BEGIN IMMEDIATE")
    task = asyncio.ensure_future(store.events.append([new_event("t", stream="s")]))
    assert not (await asyncio.wait([task], timeout=0.05))[0]
    other.run("COMMIT")
    other.close()
    assert (await task)[0].seq == 1


async def test_an_error_of_the_commit_fails_all_works_and_leaves_the_writer_usable(tmp_path: Path, driver: str) -> None:
    crash = False

    def probe(point: str) -> None:
        if crash and point == "before_commit":
            raise RuntimeError("the power went")

    store = SqliteStore.open(tmp_path / "h.db", driver=driver, executor=inline_executor, probe=probe)
    crash = True
    works = [store.events.append([new_event("t", stream="s")]) for _ in range(3)]
    answers = await asyncio.gather(*works, return_exceptions=True)
    assert [type(answer) for answer in answers] == [RuntimeError] * 3
    crash = False
    assert (await store.events.append([new_event("t", stream="s")]))[0].seq == 1
    await store.close()


async def test_appends_are_synced_and_claims_are_synced_with_the_next_commit(store: SqliteStore) -> None:
    """The promise of acceptance is FULL; a batch with one durable work is durable as a whole."""
    seen: list[int] = []

    def look(connection: Connection) -> None:
        seen.append(int(connection.rows("PRAGMA synchronous")[0][0]))

    writer = writer_of(store)
    await writer.run(look)
    await writer.run(look, durable=False)
    await writer.run(look)
    await asyncio.gather(writer.run(look, durable=False), writer.run(look))
    assert seen == [2, 1, 2, 2, 2]


async def test_a_batch_without_failures_needs_no_savepoints(store: SqliteStore) -> None:
    """They would copy every page a work touches; they are made only to find the one that failed."""
    said: list[str] = []
    connection = writer_of(store)._connection
    run = connection.run

    def listen(sql: str, params: Params = ()) -> int:
        said.append(sql)
        return run(sql, params)

    connection.run = listen  # type: ignore[method-assign]
    await asyncio.gather(*[store.events.append([new_event("t", i)]) for i in range(5)])
    assert said == ["BEGIN IMMEDIATE", "COMMIT"]
    bad = store.events.append([new_event("t", 1, dedup_key="k"), new_event("t", 2, dedup_key="k")])
    answers = await asyncio.gather(store.events.append([new_event("t")]), bad, return_exceptions=True)
    assert [type(answer) for answer in answers] == [list, DedupConflict]
    assert said[2:] == [
        "BEGIN IMMEDIATE", "ROLLBACK", "BEGIN IMMEDIATE",
        "SAVEPOINT work", "RELEASE work", "SAVEPOINT work", "ROLLBACK TO work", "RELEASE work", "COMMIT",
    ]  # fmt: skip
    assert await store.routing.backlog() == 6


async def test_the_first_in_the_queue_may_be_cancelled_and_the_rest_is_done(store: SqliteStore) -> None:
    """The first caller commits for all; if it is cancelled before that, the loop commits."""
    first = asyncio.ensure_future(store.events.append([new_event("t", stream="s")]))
    second = asyncio.ensure_future(store.events.append([new_event("t", stream="s")]))
    await asyncio.sleep(0)
    first.cancel()
    (answer,) = await second
    assert answer.seq in (1, 2)
    assert first.cancelled()
    await store.events.append([new_event("t", stream="after")])
