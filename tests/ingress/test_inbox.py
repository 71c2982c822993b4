"""The inbox: an event that arrives twice is handled once, in the consumer's own transaction."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import aiosqlite
import pytest
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.orm import Session

from holdfast import BadInput, Outbox
from holdfast.domain.errors import StoreMissing


@pytest.fixture
def outbox(tmp_path: Path) -> Outbox:
    box = Outbox(f"sqlite:///{tmp_path}/app.db")
    box.migrate()
    return box


@pytest.fixture
def connection(outbox: Outbox, tmp_path: Path) -> Iterator[sqlite3.Connection]:
    with contextlib.closing(sqlite3.connect(tmp_path / "app.db")) as connection:
        yield connection


def notes(path: Path) -> list[tuple[str, str]]:
    with contextlib.closing(sqlite3.connect(path / "app.db")) as look:
        return look.execute("SELECT consumer, event_id FROM holdfast_inbox ORDER BY 1, 2").fetchall()


def test_only_the_first_time_is_the_first(outbox: Outbox, connection: sqlite3.Connection) -> None:
    seen = []
    for _ in range(3):
        with connection, outbox.once(connection, "evt_1", consumer="billing") as first:
            seen.append(first)
    assert seen == [True, False, False]


def test_consumers_do_not_know_each_other(outbox: Outbox, connection: sqlite3.Connection, tmp_path: Path) -> None:
    for consumer in ("billing", "shipping"):
        with connection, outbox.once(connection, "evt_1", consumer=consumer) as first:
            assert first
    assert notes(tmp_path) == [("billing", "evt_1"), ("shipping", "evt_1")]


def test_a_rollback_forgets_it(outbox: Outbox, connection: sqlite3.Connection, tmp_path: Path) -> None:
    with contextlib.suppress(ZeroDivisionError), connection:
        with outbox.once(connection, "evt_1", consumer="billing"):
            pass
        raise ZeroDivisionError
    assert notes(tmp_path) == []
    with connection, outbox.once(connection, "evt_1", consumer="billing") as first:
        assert first


def test_a_block_that_fails_is_forgotten_even_if_the_transaction_commits(
    outbox: Outbox, connection: sqlite3.Connection, tmp_path: Path
) -> None:
    with connection:
        with contextlib.suppress(ZeroDivisionError), outbox.once(connection, "evt_1", consumer="billing"):
            raise ZeroDivisionError
        connection.execute("CREATE TABLE other (x)")
    assert notes(tmp_path) == []


def test_a_failing_repetition_keeps_the_first_note(
    outbox: Outbox, connection: sqlite3.Connection, tmp_path: Path
) -> None:
    with connection, outbox.once(connection, "evt_1", consumer="billing"):
        pass
    with connection, contextlib.suppress(ZeroDivisionError), outbox.once(connection, "evt_1", consumer="billing"):
        raise ZeroDivisionError
    assert notes(tmp_path) == [("billing", "evt_1")]


def test_when_the_mark_cannot_be_removed_the_first_error_is_raised_with_a_note(outbox: Outbox, tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "app.db")
    once, error = outbox.once(connection, "evt_1", consumer="billing"), ZeroDivisionError()
    with contextlib.suppress(ZeroDivisionError), once:
        connection.close()
        raise error
    assert "roll the transaction back" in error.__notes__[0]
    assert notes(tmp_path) == []


def test_it_works_in_a_session(outbox: Outbox, tmp_path: Path) -> None:
    engine = sa.create_engine(f"sqlite:///{tmp_path}/app.db")
    for expected in (True, False):
        with Session(engine) as session, session.begin(), outbox.once(session, "evt_1", consumer="billing") as first:
            assert first is expected
    engine.dispose()


async def test_it_works_on_awaited_connections(outbox: Outbox, tmp_path: Path) -> None:
    async with aiosqlite.connect(tmp_path / "app.db") as connection:
        async with outbox.once(connection, "evt_1", consumer="billing") as first:
            assert first
        await connection.commit()
    engine = create_async_engine(f"sqlite+aiosqlite:///{tmp_path}/app.db")
    async with engine.begin() as connection:
        async with outbox.once(connection, "evt_1", consumer="billing") as first:
            assert not first
        with contextlib.suppress(ZeroDivisionError):
            async with outbox.once(connection, "evt_2", consumer="billing"):
                raise ZeroDivisionError
    await engine.dispose()
    assert notes(tmp_path) == [("billing", "evt_1")]


def test_a_database_without_tables_raises_an_error_with_the_fix(outbox: Outbox, tmp_path: Path) -> None:
    with contextlib.closing(sqlite3.connect(tmp_path / "bare.db")) as bare:
        once = outbox.once(bare, "evt_1", consumer="billing")
        with pytest.raises(StoreMissing, match="migrate"):
            once.__enter__()


def test_a_consumer_has_a_name(outbox: Outbox, connection: sqlite3.Connection) -> None:
    with pytest.raises(BadInput, match="consumer"):
        outbox.once(connection, "evt_1", consumer="")
