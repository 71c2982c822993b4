"""Many rows by one statement: the same rows, in the same order, as one by one."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.domain.errors import StoreError
from holdfast.domain.event import new_event
from holdfast.store.sqlite.inserts import SIZES, insert
from holdfast.store.sqlite.store import DRIVERS, SqliteStore, inline_executor

MOST = max(SIZES)
TEXT = "INSERT INTO t (id, word) VALUES (?, ?) ON CONFLICT (word) DO NOTHING"


@pytest.mark.parametrize("count", [0, 1, 9, 10, 11, MOST - 1, MOST, MOST + 1, 3 * MOST + 27])
def test_every_row_comes_in_its_order(tmp_path: Path, driver: str, count: int) -> None:
    connection = DRIVERS[driver](tmp_path / "t.db")
    connection.run("CREATE TABLE t (n INTEGER PRIMARY KEY AUTOINCREMENT, id INTEGER, word TEXT UNIQUE)")
    rows = [(number, f"w{number % 120}") for number in range(count)]
    insert(connection, TEXT, rows)
    assert connection.rows("SELECT id, word FROM t ORDER BY n") == rows[:120]
    connection.close()


def test_a_statement_that_is_no_insert_of_so_many_values_is_refused(tmp_path: Path, driver: str) -> None:
    connection = DRIVERS[driver](tmp_path / "t.db")
    with pytest.raises(ValueError, match="not an insert of 3 values"):
        insert(connection, TEXT, [(1, 2, 3)] * MOST)
    connection.close()


async def test_a_batch_with_an_id_it_has_already_numbers_the_rest_in_order(tmp_path: Path, driver: str) -> None:
    store = SqliteStore.open(tmp_path / "h.db", driver=driver, keep=True, executor=inline_executor)
    events = [new_event("t", number, id=f"evt_{number % 90:032x}") for number in range(2 * MOST + 20)]
    appended = await store.events.append(events)
    assert [one.id for one in appended] == [event.id for event in events]
    async with store.routing.batch(500) as batch:
        assert [event.id for event in batch.events] == [event.id for event in events[:90]]
    assert await store.routing.backlog() == 90
    await store.close()


async def test_a_row_that_is_refused_takes_its_whole_batch_with_it(tmp_path: Path, driver: str) -> None:
    connection = DRIVERS[driver](tmp_path / "t.db")
    connection.run("CREATE TABLE t (id INTEGER PRIMARY KEY, word TEXT NOT NULL)")
    rows = [(number, "w" if number != MOST - 1 else None) for number in range(MOST)]
    with pytest.raises(StoreError):
        insert(connection, "INSERT INTO t (id, word) VALUES (?, ?)", rows)
    assert connection.rows("SELECT count(*) FROM t") == [(0,)]
    connection.close()
