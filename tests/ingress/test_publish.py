"""Publish inside the caller's own transaction."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import aiosqlite
import pytest

from holdfast import BadInput, DedupConflict, Outbox, StoreBusy, StoreMissing
from holdfast.domain.errors import BadConfig


@pytest.fixture
def outbox(tmp_path: Path) -> Outbox:
    box = Outbox(f"sqlite:///{tmp_path}/app.db")
    box.migrate()
    return box


@pytest.fixture
def connection(outbox: Outbox, tmp_path: Path):
    connection = sqlite3.connect(tmp_path / "app.db")
    outbox.prepare(connection)
    connection.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY)")
    yield connection
    connection.close()


def count(connection: sqlite3.Connection) -> int:
    return connection.execute("SELECT count(*) FROM holdfast_events").fetchone()[0]


def test_a_commit_keeps_the_row_and_its_event(outbox: Outbox, connection: sqlite3.Connection) -> None:
    with connection:
        connection.execute("INSERT INTO orders VALUES (42)")
        published = outbox.publish(connection, "order.placed", {"id": 42}, stream="order:42")
    assert connection.execute("SELECT id, seq FROM holdfast_events").fetchall() == [(published.id, 1)]
    assert connection.execute("SELECT count(*) FROM holdfast_unrouted").fetchone() == (1,)


def test_a_rollback_leaves_neither(outbox: Outbox, connection: sqlite3.Connection) -> None:
    connection.execute("INSERT INTO orders VALUES (42)")
    outbox.publish(connection, "order.placed", {"id": 42}, stream="order:42")
    connection.rollback()
    assert count(connection) == 0
    assert connection.execute("SELECT count(*) FROM orders").fetchone() == (0,)
    with connection:
        outbox.publish(connection, "order.placed", {}, stream="order:42")
    assert connection.execute("SELECT seq FROM holdfast_events").fetchall() == [(1,)]


def test_publish_never_commits(outbox: Outbox, connection: sqlite3.Connection, tmp_path: Path) -> None:
    outbox.publish(connection, "order.placed")
    assert connection.in_transaction
    other = sqlite3.connect(tmp_path / "app.db")
    assert count(other) == 0
    other.close()
    connection.rollback()


def test_a_savepoint_takes_its_event_with_it(outbox: Outbox, connection: sqlite3.Connection) -> None:
    with connection:
        outbox.publish(connection, "kept", stream="s")
        connection.execute("SAVEPOINT inner")
        outbox.publish(connection, "undone", stream="s")
        connection.execute("ROLLBACK TO inner")
        outbox.publish(connection, "kept.too", stream="s")
    assert connection.execute("SELECT type, seq FROM holdfast_events ORDER BY n").fetchall() == [
        ("kept", 1),
        ("kept.too", 2),
    ]


def test_the_same_key_returns_the_first_event(outbox: Outbox, connection: sqlite3.Connection) -> None:
    with connection:
        first = outbox.publish(connection, "order.placed", {"id": 1}, dedup="k")
    with connection:
        again = outbox.publish(connection, "order.placed", {"id": 1}, dedup="k")
    assert (again.id, again.duplicate, first.duplicate) == (first.id, True, False)
    assert count(connection) == 1


def test_the_same_key_with_another_body_is_refused_and_the_transaction_lives_on(
    outbox: Outbox, connection: sqlite3.Connection
) -> None:
    with connection:
        outbox.publish(connection, "order.placed", {"id": 1}, dedup="k")
    with connection:
        connection.execute("INSERT INTO orders VALUES (7)")
        with pytest.raises(DedupConflict, match="another body"):
            outbox.publish(connection, "order.placed", {"id": 2}, dedup="k")
    assert connection.execute("SELECT id FROM orders").fetchall() == [(7,)]


def test_a_database_without_tables_raises_an_error_with_the_fix(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "bare.db") as bare, pytest.raises(StoreMissing, match="migrate"):
        Outbox(f"sqlite:///{tmp_path}/bare.db").publish(bare, "x")
    bare.close()


def test_anything_else_than_a_connection_is_named(outbox: Outbox) -> None:
    with pytest.raises(BadInput, match=r"builtins\.dict"):
        outbox.publish({}, "x")


def test_a_delayed_event_carries_its_time(outbox: Outbox, connection: sqlite3.Connection) -> None:
    at = datetime.now(UTC) + timedelta(days=1)
    with connection:
        outbox.publish(connection, "reminder", at=at)
    assert connection.execute("SELECT not_before FROM holdfast_events").fetchone() == (round(at.timestamp() * 1000),)


def test_check_names_settings_that_weaken_durability(outbox: Outbox, tmp_path: Path) -> None:
    plain = sqlite3.connect(tmp_path / "app.db")
    plain.execute("PRAGMA synchronous = NORMAL")
    assert any("synchronous" in fault for fault in outbox.check(plain))
    outbox.prepare(plain)
    assert outbox.check(plain) == []
    plain.close()


def test_prepare_and_check_take_every_connection_to_sqlite(outbox: Outbox, tmp_path: Path) -> None:
    import apsw
    import sqlalchemy as sa
    from sqlalchemy.orm import Session

    rows = sqlite3.connect(tmp_path / "app.db")
    rows.row_factory = lambda cursor, row: {column[0]: value for column, value in zip(cursor.description, row)}  # noqa: B905
    rows.text_factory = bytes
    engine = sa.create_engine(outbox.url)
    session, other = Session(engine), engine.connect()
    for connection in (rows, rows.cursor(), apsw.Connection(str(tmp_path / "another.db")), session, other):
        outbox.prepare(connection)
        assert outbox.check(connection) == []
    rows.close()
    session.close()
    other.close()
    engine.dispose()


async def test_a_connection_that_is_awaited_is_prepared_with_await(outbox: Outbox, tmp_path: Path) -> None:
    async with aiosqlite.connect(tmp_path / "app.db") as connection:
        with pytest.raises(BadInput, match=r"prepare\(\) cannot use a aiosqlite.*; use prepare_async\(\) with it"):
            outbox.prepare(connection)
        with pytest.raises(BadInput, match=r"check_async\(\)"):
            outbox.check(connection)
        assert await outbox.check_async(connection) != []
        await outbox.prepare_async(connection)
        assert await outbox.check_async(connection) == []


def test_prepare_inside_a_transaction_is_refused_with_the_reason(outbox: Outbox, tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "app.db", isolation_level=None)
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute("BEGIN")
    with pytest.raises(BadInput, match="before a transaction begins"):
        outbox.prepare(connection)
    connection.execute("ROLLBACK")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("BEGIN")
    outbox.prepare(connection)  # nothing is missing that would need the transaction to end
    assert outbox.check(connection) == []
    assert connection.in_transaction
    connection.close()


def test_an_application_that_reads_bytes_gets_the_same_answer(outbox: Outbox, connection: sqlite3.Connection) -> None:
    connection.text_factory = bytes
    with connection:
        first = outbox.publish(connection, "order.placed", {"id": 42}, dedup="k")
        again = outbox.publish(connection, "order.placed", {"id": 42}, dedup="k")
    assert (type(first.id), first.duplicate, again) == (str, False, (first.id, True))


def test_a_locked_database_raises_store_busy_and_the_transaction_can_be_repeated(
    outbox: Outbox, connection: sqlite3.Connection, tmp_path: Path
) -> None:
    other = sqlite3.connect(tmp_path / "app.db", timeout=0)
    outbox.publish(connection, "first")
    with pytest.raises(StoreBusy, match=r"locked by another writer; .* run your transaction again"):
        outbox.publish(other, "second")
    connection.commit()
    with other:
        outbox.publish(other, "second")
    assert count(other) == 2
    other.close()


@pytest.mark.parametrize("at", ["tomorrow", 5, datetime(2030, 1, 1), date(2030, 1, 1)])  # noqa: DTZ001
def test_a_delay_that_is_no_time_is_named(outbox: Outbox, connection: sqlite3.Connection, at: Any) -> None:
    with pytest.raises(BadInput, match=r"at must be a datetime|has no time zone"):
        outbox.publish(connection, "reminder", at=at)


@pytest.mark.parametrize("url", ["sqlite:///:memory:", "sqlite:///app.db?timeout=5", "sqlite:///file:app.db"])
def test_a_store_that_is_no_plain_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadConfig, match=r"a store is a file of its own|takes no options"):
        Outbox(url).migrate()
    assert list(tmp_path.iterdir()) == []


def test_an_application_database_gets_no_views_of_the_source_systems(connection: sqlite3.Connection) -> None:
    names = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'view'")}
    assert names == {"holdfast_publish", "holdfast_unrouted"}


def test_publishing_loads_no_server_code(tmp_path: Path) -> None:
    script = f"""
import sqlite3, sys
from holdfast import Outbox
box = Outbox("sqlite:///{tmp_path}/light.db")
box.migrate()
with sqlite3.connect("{tmp_path}/light.db") as connection:
    box.publish(connection, "x")
heavy = {{"asyncio", "aiohttp", "fastapi", "apsw", "pydantic", "uvicorn", "yaml"}} & set(sys.modules)
assert heavy <= {{"asyncio"}}, heavy
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=30)


def test_publishing_loads_no_asyncio_and_no_third_party_module(outbox: Outbox) -> None:
    script = f"""
import sqlite3, sys
before = set(sys.modules)
from holdfast import Outbox
box = Outbox({outbox.url!r})
with sqlite3.connect({outbox.url.removeprefix("sqlite:///")!r}) as connection:
    box.publish(connection, "x", dedup="k")
    with box.once(connection, "evt_1", consumer="c"):
        pass
connection.close()
roots = {{name.partition(".")[0] for name in set(sys.modules) - before}}
assert roots - sys.stdlib_module_names == {{"holdfast"}}, roots
assert not roots & {{"asyncio", "socket", "subprocess"}}, roots
"""
    subprocess.run([sys.executable, "-W", "error", "-c", script], check=True, timeout=30)


def test_handlers_are_contracts(tmp_path: Path) -> None:
    box = Outbox("sqlite:///x.db")

    @box.on("order.*", policy="webhook", ordered=True, properties={"region": "eu"})
    async def ship(event, delivery) -> None: ...

    (contract,) = box.contracts.all()
    assert contract.address.text == "handler:ship"
    assert contract.policy_name == "webhook"
    assert contract.is_ordered
    assert contract.matches("app", "order.placed", {"region": "eu"}, 0)
    assert not contract.matches("app", "order.placed", {"region": "us"}, 0)


def test_two_handlers_of_one_name_are_refused() -> None:
    box = Outbox("sqlite:///x.db")
    box.on("a")(_handler)
    with pytest.raises(BadInput, match="registered already"):
        box.on("b")(_handler)


def test_a_handler_must_take_an_event() -> None:
    with pytest.raises(BadInput, match="takes"):
        Outbox("sqlite:///x.db").on("a")(lambda: None)


async def _handler(event) -> None: ...
