"""Named SQL: every name is used, every use has a name, and every statement can be prepared."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import holdfast
from holdfast.store.sqlite.statements import sql
from holdfast.store.sqlite.store import DRIVERS, prepare_file
from holdfast.store.statements import Statements

USE = re.compile(r"\bsql\.([a-z_]+)")


def used() -> set[str]:
    sources = Path(holdfast.__file__).parent.joinpath("store", "sqlite").rglob("*.py")
    return {name for source in sources for name in USE.findall(source.read_text()) if source.name != "statements.py"}


def test_every_statement_is_used() -> None:
    assert sorted(set(sql.names()) - used()) == []


def test_every_use_has_its_statement() -> None:
    assert sorted(used() - set(sql.names())) == []


def test_an_unknown_name_is_an_error_that_says_so() -> None:
    with pytest.raises(AttributeError, match="no SQL statement named 'nonsense'"):
        _ = sql.nonsense


def test_a_statement_name_defined_twice_is_refused() -> None:
    statements = Statements("holdfast.store.sqlite")
    with pytest.raises(ValueError, match="twice"):
        statements._read("again.sql", "-- name: event_get\nSELECT 1;")


def test_every_statement_fits_the_schema(tmp_path: Path, driver: str) -> None:
    path = tmp_path / "h.db"
    prepare_file(path, driver, own=True, create=True)
    connection = DRIVERS[driver](path)
    for name in sql.names():
        text = getattr(sql, name)
        numbered = {int(number) for number in re.findall(r"\?(\d+)", text)}
        count = max(numbered) if numbered else text.count("?")
        connection.rows(f"EXPLAIN {text}", [None] * count)
    connection.close()
