"""The SQLite store that is copied: its rows page by page, and the triggers that refuse further writes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Self

from holdfast.domain.errors import NotFound
from holdfast.store.copy_tables import CopiedTable
from holdfast.store.sqlite.connection import ApswConnection, Row, tune
from holdfast.store.sqlite.migrate import MOVED_KEY, require

ROWS_MAX = 1000
BYTES_MAX = 4 << 20

# What applications write on their own connections. The daemon is stopped.
_REFUSED = (
    ("events", "INSERT"),
    ("streams", "UPDATE"),
    ("cursors", "INSERT"),
    ("cursors", "UPDATE"),
    ("inbox", "INSERT"),
)


class Page(NamedTuple):
    """Some rows of a table, in the order of its key. `last`: the key of the last one."""

    columns: list[str]
    rows: list[Row]
    last: list[int | str] | None


class CopySource:
    """A context manager. Another process holds no lock on the file meanwhile, except for short reads."""

    def __init__(self, path: Path) -> None:
        if not path.exists():
            raise NotFound(f"there is no store at {path}")
        self._connection = ApswConnection(path)
        self._columns: dict[str, list[str]] = {}

    def __enter__(self) -> Self:
        tune(self._connection)
        require(self._connection)
        return self

    def __exit__(self, *exception: object) -> None:
        self._connection.close()

    def meta(self) -> dict[str, str]:
        return dict(self._connection.rows("SELECT key, value FROM holdfast_meta"))

    def count(self, table: CopiedTable) -> int:
        return int(self._connection.rows(f"SELECT count(*) FROM holdfast_{table.name}")[0][0])  # noqa: S608

    def page(self, table: CopiedTable, after: Sequence[object] | None) -> Page:
        """The rows after a key; at most `ROWS_MAX` of them, and about `BYTES_MAX` bytes."""
        columns = self._columns_of(table)
        shown = ", ".join(table.changed.get(column, f'"{column}"') for column in columns)
        key, marks = ", ".join(table.key), ", ".join("?" * len(table.key))
        where = f"WHERE ({key}) > ({marks})" if after is not None else ""
        rows: list[Row] = []
        size = 0

        def visit(row: Row) -> bool:
            nonlocal size
            rows.append(row)
            size += sum(len(value) for value in row if isinstance(value, str | bytes))
            return len(rows) < ROWS_MAX and size < BYTES_MAX

        text = f"SELECT {shown} FROM holdfast_{table.name} {where} ORDER BY {key} LIMIT {ROWS_MAX}"  # noqa: S608
        self._connection.each(text, tuple(after or ()), visit)
        last = [rows[-1][columns.index(column)] for column in table.key] if rows else None
        return Page(columns, rows, last)

    def last_number(self, table: CopiedTable) -> int:
        """The highest number ever given, also if its row was removed since."""
        stored = self._connection.rows(f"SELECT max({table.key[0]}) FROM holdfast_{table.name}")[0][0]  # noqa: S608
        given = self._connection.rows("SELECT seq FROM sqlite_sequence WHERE name = ?", (f"holdfast_{table.name}",))
        if table.name == "events":
            given = self._connection.rows("SELECT place FROM holdfast_router")
        return max(stored or 0, given[0][0] if given else 0)

    def heads(self) -> list[Row]:
        return self._connection.rows("SELECT chain, seq, head FROM holdfast_nodes ORDER BY chain")

    def links(self) -> list[Row]:
        return self._connection.rows(
            "SELECT chain, count(*), max(seq) FROM holdfast_receipts GROUP BY chain ORDER BY chain"
        )

    def mark(self, why: str) -> None:
        """Refuse writes from now on, with this sentence."""
        text = f"holdfast: {why}".replace("'", "''")
        self._run(
            *self._unmarking(),
            *(
                f"CREATE TRIGGER holdfast_moved_{table}_{verb} BEFORE {verb} ON holdfast_{table} "
                f"BEGIN SELECT RAISE(ABORT, '{text}'); END"
                for table, verb in _REFUSED
            ),
            f"INSERT INTO holdfast_meta (key, value) VALUES ('{MOVED_KEY}', '{why.replace(chr(39), chr(39) * 2)}')",  # noqa: S608
        )

    def unmark(self) -> None:
        self._run(*self._unmarking())

    def _unmarking(self) -> list[str]:
        dropped = [f"DROP TRIGGER IF EXISTS holdfast_moved_{table}_{verb}" for table, verb in _REFUSED]
        return [*dropped, f"DELETE FROM holdfast_meta WHERE key = '{MOVED_KEY}'"]  # noqa: S608

    def _run(self, *statements: str) -> None:
        self._connection.run("BEGIN IMMEDIATE")
        try:
            for statement in statements:
                self._connection.run(statement)
        except BaseException:
            self._connection.run("ROLLBACK")
            raise
        self._connection.run("COMMIT")

    def _columns_of(self, table: CopiedTable) -> list[str]:
        if table.name not in self._columns:
            found = self._connection.rows(f"PRAGMA table_info(holdfast_{table.name})")
            self._columns[table.name] = [row[1] for row in found if row[1] not in table.omitted]
        return self._columns[table.name]
