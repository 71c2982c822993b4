"""The page on plain SQL: every statement is run, and answers or fails as the page says."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path

import pytest

from holdfast.store.open import migrate_store
from holdfast.store.sqlite.migrate import split

PAGE = (Path(__file__).parents[2] / "docs" / "applications" / "plain-sql.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^```sql\n(.*?)^```\n(?:\n```text\n(.*?)^```)?", PAGE, re.DOTALL | re.MULTILINE)


@pytest.fixture
def connection(tmp_path):
    path = tmp_path / "holdfast.db"
    migrate_store(f"sqlite:///{path}", own=True)
    connection = sqlite3.connect(path, isolation_level=None)
    yield connection
    connection.close()


def run(connection, block):
    """The rows of the last statement, as the sqlite3 shell shows them."""
    rows = []
    for statement in split(block):
        rows = connection.execute(statement).fetchall()
    return ["|".join("" if value is None else str(value) for value in row) for row in rows]


def test_every_example_does_what_the_page_says(connection):
    assert len(EXAMPLES) >= 10
    for block, answer in EXAMPLES:
        fails = re.match(r"-- fails: (.*)\n", block)
        if fails:
            with pytest.raises(sqlite3.IntegrityError, match=re.escape(fails[1])):
                run(connection, block)
        else:
            rows = run(connection, block)
            if answer:
                assert rows == answer.splitlines()


def test_every_error_of_the_door_is_on_the_page(connection):
    (door,) = connection.execute("SELECT sql FROM sqlite_master WHERE name = 'holdfast_publish_door'").fetchone()
    messages = re.findall(r"RAISE\(ABORT, '(.*?)'\)", door)
    assert len(messages) >= 6
    for message in messages:
        assert message in PAGE


def test_every_column_of_the_door_is_on_the_page(connection):
    columns = {row[1] for row in connection.execute("PRAGMA table_info(holdfast_publish)")}
    table = PAGE.partition("## Columns")[2].partition("\n## ")[0]
    assert {name.strip('"') for name in re.findall(r"^\| `(.+?)` \|", table, re.MULTILINE)} == columns


def test_every_view_is_on_the_page(connection):
    views = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'view'")}
    table = PAGE.partition("## Compatibility views")[2]
    assert set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == views - {"holdfast_publish", "holdfast_unrouted"}
    for view in views:
        connection.execute(f"SELECT * FROM {view}").fetchall()


def test_an_application_s_file_has_no_view_under_a_name_of_others(tmp_path):
    path = tmp_path / "app.db"
    migrate_store(f"sqlite:///{path}", own=False)
    with sqlite3.connect(path) as connection:
        names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'view' ORDER BY 1").fetchall()
    connection.close()
    assert names == [("holdfast_publish",), ("holdfast_unrouted",)]
