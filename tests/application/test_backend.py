"""The bare queue: enqueue in the caller's transaction, claim, and say how it ended."""

from __future__ import annotations

import asyncio
import contextlib
import re
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from forked import in_fork
from holdfast import BadInput, NativeSqlOutbox, OutboxBackend, PgmqOutbox
from holdfast.domain.errors import BadConfig, Conflict, NotFound
from holdfast.domain.store_url import PGMQ_PREFIX, is_postgres
from holdfast.store.open import keep_closed, migrate_store, open_store
from postgres import end_schema, fresh_schema, newest, sqlite_and_postgres, start


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    url = f"sqlite:///{tmp_path}/app.db"
    migrate_store(url, own=False, driver="sqlite3")
    return url


@pytest.fixture(params=[*sqlite_and_postgres(), pytest.param("pgmq")])
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    if request.param == "sqlite":
        yield request.getfixturevalue("sqlite_url")
        return
    prefix, version = (PGMQ_PREFIX, newest()) if request.param == "pgmq" else ("", str(request.param))
    server, schema = start(version), fresh_schema()
    migrate_store(server.url(schema, prefix), own=False)
    yield server.url(schema, prefix)
    asyncio.run(end_schema(server, schema))


@pytest.fixture
def outbox(url: str) -> Iterator[NativeSqlOutbox]:
    with PgmqOutbox(url) if url.startswith(PGMQ_PREFIX) else NativeSqlOutbox(url) as outbox:
        yield outbox


@pytest.fixture
def connection(url: str) -> Iterator[Any]:
    if is_postgres(url):
        opened: Any = psycopg.connect(url.removeprefix(PGMQ_PREFIX).partition("&schema=")[0])
    else:
        opened = sqlite3.connect(url.removeprefix("sqlite:///"))
    with contextlib.closing(opened):
        yield opened


def enqueue(outbox: NativeSqlOutbox, connection: Any, *payloads: object, **more: Any) -> list[str]:
    ids = [outbox.enqueue(connection, payload, **more) for payload in payloads]
    connection.commit()
    return ids


def test_it_keeps_the_interface(outbox: NativeSqlOutbox) -> None:
    backend: OutboxBackend = outbox
    assert backend.is_durable


def test_a_pgmq_outbox_needs_a_store_whose_queue_is_in_pgmq() -> None:
    with pytest.raises(BadConfig, match=r"pgmq\+postgresql://"):
        PgmqOutbox("sqlite:///app.db")
    server, schema = start(newest()), fresh_schema()
    migrate_store(server.url(schema), own=False)
    with PgmqOutbox(server.url(schema)) as outbox, pytest.raises(BadConfig, match="holdfast db promote --to pgmq"):
        outbox.claim()
    asyncio.run(end_schema(server, schema))


def test_messages_come_oldest_first_under_the_id_they_were_given(outbox: NativeSqlOutbox, connection: Any) -> None:
    ids = enqueue(outbox, connection, {"n": 1}, {"n": 2})
    rows = [outbox.claim(), outbox.claim()]
    assert [(row.id, row.payload, row.attempt_count, row.max_attempts) for row in rows] == [
        (ids[0], {"n": 1}, 1, 24),
        (ids[1], {"n": 2}, 1, 24),
    ]
    assert outbox.claim() is None


def test_a_rollback_enqueues_nothing(outbox: NativeSqlOutbox, connection: Any) -> None:
    outbox.enqueue(connection, {"n": 1})
    connection.rollback()
    assert outbox.claim() is None


def test_queues_are_apart(outbox: NativeSqlOutbox, connection: Any) -> None:
    enqueue(outbox, connection, "a", queue="a")
    enqueue(outbox, connection, "b", queue="b")
    assert outbox.claim("b").payload == "b"
    assert (outbox.stats("a"), outbox.stats("b")) == (
        {"pending": 1, "in_flight": 0, "dlq": 0},
        {"pending": 0, "in_flight": 1, "dlq": 0},
    )


def test_a_confirmed_message_is_done(outbox: NativeSqlOutbox, connection: Any) -> None:
    enqueue(outbox, connection, "x")
    outbox.confirm(outbox.claim().id)
    assert outbox.stats() == {"pending": 0, "in_flight": 0, "dlq": 0}


def test_a_released_message_hides_until_its_backoff_is_over(outbox: NativeSqlOutbox, connection: Any) -> None:
    enqueue(outbox, connection, "x")
    outbox.release(outbox.claim().id, "503")
    assert outbox.claim() is None
    assert outbox.stats() == {"pending": 1, "in_flight": 0, "dlq": 0}


def test_the_last_release_makes_a_dead_letter_that_can_be_seen_and_reprocessed(
    outbox: NativeSqlOutbox, connection: Any
) -> None:
    (id,) = enqueue(outbox, connection, {"n": 1}, max_attempts=1)
    outbox.release(outbox.claim().id, "503 from the receiver")
    assert outbox.dlq_count() == 1
    (letter,) = outbox.dlq_inspect(limit=10)
    assert {name: letter[name] for name in ("id", "queue_name", "payload", "attempt_count", "last_error")} == {
        "id": id,
        "queue_name": "default",
        "payload": {"n": 1},
        "attempt_count": 1,
        "last_error": "503 from the receiver",
    }
    assert (outbox.dlq_reprocess([id, "evt_unknown"]), outbox.dlq_count()) == (1, 0)
    assert outbox.claim().id == id


def test_a_refused_message_is_dead_at_once(outbox: NativeSqlOutbox, connection: Any) -> None:
    enqueue(outbox, connection, "x", "y")
    outbox.dlq(outbox.claim().id, "422: no such tenant")
    assert outbox.stats() == {"pending": 1, "in_flight": 0, "dlq": 1}


def test_an_end_that_comes_too_late_is_refused(url: str, connection: Any) -> None:
    with NativeSqlOutbox(url, lease_seconds=-1) as slow, NativeSqlOutbox(url) as other:
        enqueue(slow, connection, "x")
        late = slow.claim()
        assert other.reclaim_stuck_in_flight() == 1
        assert other.claim().id == late.id
        with pytest.raises(Conflict, match="another process may hold it"):
            slow.confirm(late.id)
        other.confirm(late.id)
        assert other.stats() == {"pending": 0, "in_flight": 0, "dlq": 0}


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere SQLite's leases have to end first")
def test_messages_of_a_killed_process_are_released_at_once(url: str, outbox: NativeSqlOutbox, connection: Any) -> None:
    (id,) = enqueue(outbox, connection, "x")
    claim = f"print(holdfast.NativeSqlOutbox({url!r}).claim().id, flush=True)"
    program = f"import os, holdfast; {claim}; os.kill(os.getpid(), 9)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.returncode) == (id, -9)
    assert outbox.reclaim_stuck_in_flight() == 1
    assert outbox.claim().id == id


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"queue": ""}, "queue must be a non-empty string, not ''"),
        ({"queue": None}, "queue must be a non-empty string, not None"),
        ({"queue": "a b"}, "queue 'a b' is not a valid queue name"),
        ({"max_attempts": 0}, "max_attempts must be a number from 1 to"),
        ({"max_attempts": "3"}, "max_attempts must be a number from 1 to"),
        ({"max_attempts": True}, "max_attempts must be a number from 1 to"),
        ({"max_attempts": 10**9}, "max_attempts must be a number from 1 to"),
    ],
)
def test_an_invalid_message_is_named_and_the_transaction_continues(
    outbox: NativeSqlOutbox, connection: Any, wrong: dict[str, Any], message: str
) -> None:
    with pytest.raises(BadInput, match=re.escape(message)):
        outbox.enqueue(connection, "x", **wrong)
    assert enqueue(outbox, connection, "y") == [outbox.claim().id]


def test_an_invalid_queue_is_named(outbox: NativeSqlOutbox) -> None:
    for ask in (outbox.claim, outbox.stats, outbox.dlq_count):
        with pytest.raises(BadInput, match="queue must be a non-empty string"):
            ask("")
    with pytest.raises(BadInput, match="a list of ids, not the text 'evt_1'"):
        outbox.dlq_reprocess("evt_1")


def test_only_what_is_in_your_hands_can_be_ended(outbox: NativeSqlOutbox) -> None:
    with pytest.raises(NotFound, match="claim it first"):
        outbox.confirm("evt_1")


def test_closing_gives_back_what_was_claimed(url: str, connection: Any) -> None:
    with NativeSqlOutbox(url) as first:
        (id,) = enqueue(first, connection, "x")
        first.claim()
    with NativeSqlOutbox(url) as second:
        assert second.claim().id == id


def test_beside_a_keeper_the_keeper_routes(sqlite_url: str) -> None:
    path = sqlite_url.removeprefix("sqlite:///")
    with NativeSqlOutbox(sqlite_url) as outbox, contextlib.closing(sqlite3.connect(path)) as connection:
        enqueue(outbox, connection, "x")
        with keep_closed(sqlite_url, "a daemon"):
            assert outbox.claim() is None
        assert outbox.claim().payload == "x"


async def test_it_survives_a_keeper_that_comes_later(sqlite_url: str) -> None:
    path = sqlite_url.removeprefix("sqlite:///")
    with NativeSqlOutbox(sqlite_url) as outbox, contextlib.closing(sqlite3.connect(path)) as connection:
        enqueue(outbox, connection, "x")
        row = outbox.claim()
        keeper = open_store(sqlite_url, driver="sqlite3", keep=True)
        await keeper.owners.register()
        with pytest.raises(Conflict):
            outbox.confirm(row.id)
        again = outbox.claim()
        assert await keeper.deliveries.reclaim() == 0
        outbox.confirm(again.id)
        assert again.id == row.id
        await keeper.close()


async def test_it_may_be_called_inside_a_running_loop(outbox: NativeSqlOutbox, connection: Any) -> None:
    enqueue(outbox, connection, "x")
    assert outbox.claim().payload == "x"


@pytest.mark.parametrize("limit", [0, 101])
def test_a_look_at_the_dead_letters_is_bounded(outbox: NativeSqlOutbox, limit: int) -> None:
    with pytest.raises(BadInput, match="1 to 100"):
        outbox.dlq_inspect(limit)


def test_a_forked_child_claims_with_a_connection_of_its_own(outbox: NativeSqlOutbox, connection: Any) -> None:
    """On SQLite a child would use the file without locks, so it gets an error and the parent continues."""
    ours, for_the_child = enqueue(outbox, connection, "first", "second")
    assert row_id(outbox) == ours

    def claim_and_confirm() -> None:
        assert row_id(outbox) == for_the_child
        outbox.confirm(for_the_child)
        with pytest.raises(NotFound):
            outbox.confirm(ours)
        outbox.close()

    result = in_fork(claim_and_confirm)
    if is_postgres(outbox.url):
        assert result is None
    else:
        assert "was open when this process was forked" in str(result)
        outbox.confirm(row_id(outbox))
    outbox.confirm(ours)
    assert outbox.stats() == {"pending": 0, "in_flight": 0, "dlq": 0}


def test_a_fork_while_another_thread_opens_the_outbox_blocks_nothing(outbox: NativeSqlOutbox) -> None:
    with outbox._opening:  # in the child there is no thread that would release it
        assert in_fork(lambda: outbox.stats()) is None


def row_id(outbox: NativeSqlOutbox) -> str | None:
    row = outbox.claim()
    return None if row is None else row.id
