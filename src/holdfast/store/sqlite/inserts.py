"""Rows that are alike, many by one statement.

A statement for each row looks up and writes the table's sequence each time, and gives the interpreter's lock away and
waits for it again while other threads are busy.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import chain

from holdfast.store.sqlite.connection import Connection, Params

ROWS = 50


def insert(connection: Connection, text: str, rows: Sequence[Params]) -> None:
    """Run an insert of one row for all of them, in their order."""
    whole = len(rows) - len(rows) % ROWS
    for start in range(0, whole, ROWS):
        connection.run(_of_many(text, len(rows[start])), list(chain.from_iterable(rows[start : start + ROWS])))
    if whole < len(rows):
        connection.many(text, rows[whole:])


@cache
def _of_many(text: str, width: int) -> str:
    """The same insert with as many rows of values as go into one statement: few enough for an old SQLite."""
    values = f"({', '.join('?' * width)})"
    if text.count(values) != 1:
        raise ValueError(f"this is not an insert of {width} values: {text}")
    return text.replace(values, ", ".join([values] * ROWS))
