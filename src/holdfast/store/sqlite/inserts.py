"""Insert many rows with one statement.

A statement for each row would read and write the table's sequence each time, and release the interpreter's lock and
wait for it again while other threads are busy.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import chain

from holdfast.store.sqlite.connection import Connection, Params

SIZES = (50, 10)
"""How many rows go into one statement: few enough for the variable limit of an old SQLite."""


def insert(connection: Connection, text: str, rows: Sequence[Params]) -> None:
    """Run an insert of one row for all `rows`, in their order."""
    start = 0
    for size in SIZES:
        while start + size <= len(rows):
            values = list(chain.from_iterable(rows[start : start + size]))
            connection.run(_of_many(text, len(rows[start]), size), values)
            start += size
    if start < len(rows):
        connection.many(text, rows[start:])


@cache
def _of_many(text: str, width: int, size: int) -> str:
    """The same insert with `size` rows of values."""
    values = f"({', '.join('?' * width)})"
    if text.count(values) != 1:
        raise ValueError(f"this is not an insert of {width} values: {text}")
    return text.replace(values, ", ".join([values] * size))
