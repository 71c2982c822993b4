"""The same promises on every connection an application may have, against real SQLite files."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest
import sqlalchemy as sa
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from holdfast import Outbox
from holdfast.domain.errors import BadInput, DedupConflict, StoreMissing, StreamClosed
from store_shell import Shell, the_shell


class Sqlite3:
    """One kind of connection: how a transaction runs on it, and what is passed to `publish`."""

    def __init__(self, path: Path) -> None:
        self.raw = sqlite3.connect(path)
        self.handle: Any = self.raw

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        with self.raw:
            yield

    @contextlib.contextmanager
    def savepoint(self) -> Iterator[None]:
        self.execute("SAVEPOINT inner")
        try:
            yield
        except BaseException:
            self.execute("ROLLBACK TO inner")
            raise
        finally:
            self.execute("RELEASE inner")

    def execute(self, sql: str) -> None:
        self.raw.execute(sql)

    def close(self) -> None:
        self.raw.close()


class Sqlite3Cursor(Sqlite3):
    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.handle = self.raw.cursor()


class Sqlite3WithRows(Sqlite3):
    """An application that reads its rows as dictionaries."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.raw.row_factory = lambda cursor, row: dict(zip([c[0] for c in cursor.description], row, strict=True))


class Apsw(Sqlite3):
    def __init__(self, path: Path) -> None:
        self.raw: Any = apsw.Connection(str(path))
        self.handle = self.raw


class ApswWithRows(Apsw):
    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.raw.row_trace = lambda cursor, row: {"row": row}


class Alchemy(Sqlite3):
    def __init__(self, path: Path) -> None:
        self.engine = sa.create_engine(f"sqlite:///{path}")
        self.handle = self.raw = self.engine.connect()

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        with self.raw.begin():
            yield

    @contextlib.contextmanager
    def savepoint(self) -> Iterator[None]:
        with self.raw.begin_nested():
            yield

    def execute(self, sql: str) -> None:
        self.raw.execute(sa.text(sql))

    def close(self) -> None:
        self.raw.close()
        self.engine.dispose()


class AlchemySession(Alchemy):
    def __init__(self, path: Path) -> None:
        self.engine = sa.create_engine(f"sqlite:///{path}")
        self.handle = self.raw = Session(self.engine)


class AlchemyScoped(Alchemy):
    def __init__(self, path: Path) -> None:
        self.engine = sa.create_engine(f"sqlite:///{path}")
        self.handle = self.raw = scoped_session(sessionmaker(self.engine))

    def close(self) -> None:
        self.raw.remove()
        self.engine.dispose()


KINDS = [Sqlite3, Sqlite3Cursor, Sqlite3WithRows, Apsw, ApswWithRows, Alchemy, AlchemySession, AlchemyScoped]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "app.db"


@pytest.fixture
def outbox(path: Path) -> Outbox:
    box = Outbox(f"sqlite:///{path}")
    box.migrate()
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY)")
        connection.commit()
    return box


@pytest.fixture(params=KINDS, ids=lambda kind: kind.__name__)
def client(request: pytest.FixtureRequest, outbox: Outbox, path: Path) -> Iterator[Sqlite3]:
    made = request.param(path)
    yield made
    made.close()


@pytest.fixture
def shell() -> Shell:
    return the_shell()


class StoredRows:
    """What another process sees."""

    def __init__(self, shell: Shell, path: Path) -> None:
        self._shell, self._path = shell, path

    def events(self) -> list[tuple[str, str | None, int]]:
        rows = self._shell.rows(self._path, "SELECT type, stream, seq FROM holdfast_events ORDER BY n;")
        return [(row["type"], row["stream"], row["seq"]) for row in rows]

    def orders(self) -> int:
        return int(self._shell.rows(self._path, "SELECT count(*) AS n FROM orders;")[0]["n"])


@pytest.fixture
def stored(shell: Shell, path: Path) -> StoredRows:
    return StoredRows(shell, path)


def test_a_commit_keeps_the_row_and_exactly_one_event(outbox: Outbox, client: Sqlite3, stored: StoredRows) -> None:
    with client.transaction():
        client.execute("INSERT INTO orders VALUES (42)")
        published = outbox.publish(client.handle, "order.placed", {"id": 42}, stream="order:42")
        assert stored.events() == []
    assert stored.events() == [("order.placed", "order:42", 1)]
    assert (stored.orders(), published.duplicate) == (1, False)


def test_an_exception_leaves_neither(outbox: Outbox, client: Sqlite3, stored: StoredRows) -> None:
    with contextlib.suppress(ZeroDivisionError), client.transaction():
        client.execute("INSERT INTO orders VALUES (42)")
        outbox.publish(client.handle, "order.placed", {"id": 42}, stream="order:42")
        raise ZeroDivisionError
    assert (stored.events(), stored.orders()) == ([], 0)


def test_a_connection_closed_before_its_commit_leaves_neither(
    outbox: Outbox, client: Sqlite3, stored: StoredRows
) -> None:  # fmt: skip
    if isinstance(client, Apsw):
        client.execute("BEGIN")
    client.execute("INSERT INTO orders VALUES (42)")
    outbox.publish(client.handle, "order.placed", {"id": 42})
    client.close()
    assert (stored.events(), stored.orders()) == ([], 0)


def test_a_savepoint_takes_its_event_with_it(outbox: Outbox, client: Sqlite3, stored: StoredRows) -> None:
    with client.transaction():
        client.execute("INSERT INTO orders VALUES (42)")
        outbox.publish(client.handle, "kept", stream="s")
        with contextlib.suppress(ZeroDivisionError), client.savepoint():
            outbox.publish(client.handle, "undone", stream="s")
            raise ZeroDivisionError
        outbox.publish(client.handle, "kept.too", stream="s")
    assert stored.events() == [("kept", "s", 1), ("kept.too", "s", 2)]


def test_a_retry_after_an_unacknowledged_commit_returns_the_first_event(
    outbox: Outbox, client: Sqlite3, stored: StoredRows
) -> None:  # fmt: skip
    answers = []
    for _ in range(2):
        with client.transaction():
            answers.append(outbox.publish(client.handle, "order.placed", {"id": 42}, stream="s", dedup="order-42"))
    first, again = answers
    assert (again.id, first.duplicate, again.duplicate) == (first.id, False, True)
    assert stored.events() == [("order.placed", "s", 1)]


def test_a_key_with_another_body_is_refused_and_the_transaction_lives_on(
    outbox: Outbox, client: Sqlite3, stored: StoredRows
) -> None:
    with client.transaction():
        outbox.publish(client.handle, "order.placed", {"id": 1}, dedup="k")
    with client.transaction():
        client.execute("INSERT INTO orders VALUES (7)")
        with pytest.raises(DedupConflict, match="another body"):
            outbox.publish(client.handle, "order.placed", {"id": 2}, dedup="k")
    assert (len(stored.events()), stored.orders()) == (1, 1)


def test_a_closed_stream_is_named_in_the_error(outbox: Outbox, client: Sqlite3) -> None:
    with client.transaction():
        outbox.publish(client.handle, "first", stream="s")
        client.execute("UPDATE holdfast_streams SET closed_at = 1")
    with pytest.raises(StreamClosed), client.transaction():
        outbox.publish(client.handle, "second", stream="s")


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_database_without_tables_raises_an_error_with_the_fix(outbox: Outbox, tmp_path: Path, kind: Any) -> None:
    bare = kind(tmp_path / "bare.db")
    with pytest.raises(StoreMissing, match="migrate"), bare.transaction():
        outbox.publish(bare.handle, "x")
    bare.close()


def test_many_are_appended_by_stream_and_answered_in_the_order_given(
    outbox: Outbox, client: Sqlite3, stored: StoredRows
) -> None:
    with client.transaction():
        answers = outbox.publish_many(
            client.handle,
            [
                {"type": "b.1", "stream": "b"},
                {"type": "a.1", "stream": "a"},
                {"type": "free"},
                {"type": "b.2", "stream": "b", "dedup": "k"},
                {"type": "b.2", "stream": "b", "dedup": "k"},
            ],
        )
    assert stored.events() == [("free", None, 1), ("a.1", "a", 1), ("b.1", "b", 1), ("b.2", "b", 2)]
    assert [answer.duplicate for answer in answers] == [False, False, False, False, True]
    assert len({answer.id for answer in answers}) == 4
    assert answers[3].id == answers[4].id


def test_an_event_of_many_with_a_wrong_name_is_refused_before_anything_is_written(
    outbox: Outbox, client: Sqlite3, stored: StoredRows
) -> None:
    with client.transaction(), pytest.raises(BadInput, match="did you mean dedup"):
        outbox.publish_many(client.handle, [{"type": "a"}, {"type": "b", "dedupe": "k"}])
    assert stored.events() == []


def test_an_awaited_connection_is_sent_to_the_awaited_verb(outbox: Outbox) -> None:
    import aiosqlite

    with pytest.raises(BadInput, match=r"publish_async\(\)"):
        outbox.publish(aiosqlite.Connection(lambda: sqlite3.connect(":memory:"), 64), "x")


async def test_a_connection_that_blocks_is_sent_to_the_other_verb(outbox: Outbox, path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as connection, pytest.raises(BadInput, match=r"publish\(\)"):
        await outbox.publish_async(connection, "x")
