"""One statement on the caller's own connection, whatever driver it is of.

A driver is recognised by the name of its class and module, so that nothing is imported that the caller has not loaded
already. Each says which dialect its database speaks, how it writes parameters, and how it runs one statement; none
of them begins, commits or opens anything.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Generic, NamedTuple, TypeVar

from holdfast.domain.errors import BadInput

Row = tuple[Any, ...]
R = TypeVar("R")

SQLITE, POSTGRES = "sqlite", "postgres"
QMARK, FORMAT, DOLLAR = "qmark", "format", "dollar"

_DIALECTS = {"sqlite": SQLITE, "postgresql": POSTGRES}
_MARKS = {"qmark": QMARK, "format": FORMAT, "pyformat": FORMAT, "numeric_dollar": DOLLAR}
_PLAIN = {"no_parameters": True}  # to SQLAlchemy: where there are no values, a % in the text is only a %


class Statement(NamedTuple):
    """A statement and its values, without any I/O."""

    sql: str
    params: tuple[Any, ...] = ()


class Driver(NamedTuple, Generic[R]):
    """How one connection is spoken to. `rows` gives the rows of a statement, or an awaitable of them."""

    dialect: str
    marks: str
    rows: Callable[[Statement], R]


Sync = Driver[list[Row]]
Async = Driver[Awaitable[list[Row]]]


class Calls(NamedTuple):
    """What the user called, or should have: on a connection that blocks, and on one that is awaited."""

    sync: str = "publish()"
    awaited: str = "publish_async()"


def sync_driver(connection: Any, calls: Calls) -> Sync:
    """The driver of a connection that blocks."""
    make = _find(connection, _SYNC)
    if make is None:
        raise _refuse(connection, calls.sync, calls.awaited, _ASYNC, _SYNC)
    return make(connection)


async def async_driver(connection: Any, calls: Calls) -> Async:
    """The driver of a connection that is awaited."""
    make = _find(connection, _ASYNC)
    if make is None:
        raise _refuse(connection, calls.awaited, calls.sync, _SYNC, _ASYNC)
    return await make(connection)


def _find(connection: Any, known: Mapping[str, R]) -> R | None:
    for kind in type(connection).__mro__:
        found = known.get(f"{kind.__module__.partition('.')[0]}.{kind.__name__}")
        if found is not None:
            return found
    return None


def _refuse(connection: Any, verb: str, other: str, others: Mapping[str, Any], known: Mapping[str, Any]) -> BadInput:
    kind = type(connection)
    name = f"{kind.__module__}.{kind.__qualname__}"
    if _find(connection, others) is not None:
        return BadInput(f"{verb} cannot use a {name}; use {other} with it")
    if (instead := _find(connection, _NOT_IN_A_TRANSACTION)) is not None:
        return BadInput(f"a {name} runs no transaction; pass {verb} {instead}")
    return BadInput(
        f"{verb} takes the connection your transaction runs on; {name} is not one it knows: "
        f"pass one of {', '.join(sorted(known))}"
    )


def _sqlite3(connection: Any) -> Sync:
    def rows(statement: Statement) -> list[Row]:
        cursor = connection.cursor()
        cursor.row_factory = None  # whatever the application made of its rows, ours are tuples
        try:
            return _texts(connection, list(cursor.execute(*statement)))
        finally:
            cursor.close()

    return Driver(SQLITE, QMARK, rows)


def _texts(connection: Any, rows: list[Row]) -> list[Row]:
    """Whatever the application made of its texts, ours are strings."""
    if connection.text_factory is str:
        return rows
    return [tuple(value.decode() if isinstance(value, bytes) else value for value in row) for row in rows]


def _apsw(connection: Any) -> Sync:
    def rows(statement: Statement) -> list[Row]:
        cursor = connection.cursor()
        cursor.row_trace = lambda _, row: row
        return list(cursor.execute(*statement))

    return Driver(SQLITE, QMARK, rows)


def _psycopg(connection: Any) -> Sync:
    from psycopg.rows import tuple_row

    def rows(statement: Statement) -> list[Row]:
        with connection.cursor(row_factory=tuple_row) as cursor:
            cursor.execute(statement.sql, statement.params or None)
            found: list[Row] = cursor.fetchall()  # in a pipeline this is what waits for the answer
            return found

    return Driver(POSTGRES, _psycopg_marks(connection), rows)


def _psycopg_marks(connection: Any) -> str:
    raw = any(kind.__name__.endswith("RawCursor") for kind in connection.cursor_factory.__mro__)
    return DOLLAR if raw else FORMAT


def _of_cursor(make: Callable[[Any], R]) -> Callable[[Any], R]:
    return lambda cursor: make(cursor.connection)


def _sqlalchemy(connection: Any) -> Sync:
    def rows(statement: Statement) -> list[Row]:
        result = connection.exec_driver_sql(statement.sql, statement.params or None, _PLAIN)
        return result.fetchall() if result.returns_rows else []

    return Driver(*_speech_of(connection.dialect), rows)


def _sqlalchemy_session(session: Any) -> Sync:
    return _sqlalchemy(session.connection())


def _django(connection: Any) -> Sync:
    def rows(statement: Statement) -> list[Row]:
        with connection.cursor() as cursor:
            cursor.execute(statement.sql, statement.params or None)
            return cursor.fetchall() if cursor.description else []

    return Driver(dialect_named(connection.vendor), FORMAT, rows)


def _django_cursor(cursor: Any) -> Sync:
    return _django(cursor.db)


async def _aiosqlite(connection: Any) -> Async:
    async def rows(statement: Statement) -> list[Row]:
        async with connection.cursor() as cursor:
            cursor.row_factory = None
            await cursor.execute(*statement)
            return _texts(connection, list(await cursor.fetchall()))

    return Driver(SQLITE, QMARK, rows)


async def _psycopg_async(connection: Any) -> Async:
    from psycopg.rows import tuple_row

    async def rows(statement: Statement) -> list[Row]:
        async with connection.cursor(row_factory=tuple_row) as cursor:
            await cursor.execute(statement.sql, statement.params or None)
            found: list[Row] = await cursor.fetchall()
            return found

    return Driver(POSTGRES, _psycopg_marks(connection), rows)


async def _psycopg_async_cursor(cursor: Any) -> Async:
    return await _psycopg_async(cursor.connection)


async def _asyncpg(connection: Any) -> Async:
    from asyncpg import Record

    async def rows(statement: Statement) -> list[Row]:
        return [tuple(row) for row in await connection.fetch(statement.sql, *statement.params, record_class=Record)]

    return Driver(POSTGRES, DOLLAR, rows)


async def _sqlalchemy_async(connection: Any) -> Async:
    async def rows(statement: Statement) -> list[Row]:
        result = await connection.exec_driver_sql(statement.sql, statement.params or None, _PLAIN)
        return result.fetchall() if result.returns_rows else []

    return Driver(*_speech_of(connection.dialect), rows)


async def _sqlalchemy_async_session(session: Any) -> Async:
    return await _sqlalchemy_async(await session.connection())


def _speech_of(dialect: Any) -> tuple[str, str]:
    marks = _MARKS.get(dialect.paramstyle)
    if marks is None:
        raise BadInput(f"the SQLAlchemy driver {dialect.driver} writes parameters as {dialect.paramstyle}")
    return dialect_named(dialect.name), marks


def dialect_named(name: str) -> str:
    """Our word for a database, by the name SQLAlchemy and Django give it."""
    if name not in _DIALECTS:
        raise BadInput(f"Holdfast keeps its events in SQLite or PostgreSQL; this connection is to {name}")
    return _DIALECTS[name]


_SYNC: Mapping[str, Callable[[Any], Sync]] = {
    "sqlite3.Connection": _sqlite3,
    "sqlite3.Cursor": _of_cursor(_sqlite3),
    "apsw.Connection": _apsw,
    "apsw.Cursor": _of_cursor(_apsw),
    "psycopg.Connection": _psycopg,
    "psycopg.Cursor": _of_cursor(_psycopg),
    "sqlalchemy.Connection": _sqlalchemy,
    "sqlalchemy.Session": _sqlalchemy_session,
    "sqlalchemy.scoped_session": _sqlalchemy_session,
    "django.BaseDatabaseWrapper": _django,
    "django.ConnectionProxy": _django,
    "django.CursorWrapper": _django_cursor,
}
_ASYNC: Mapping[str, Callable[[Any], Awaitable[Async]]] = {
    "aiosqlite.Connection": _aiosqlite,
    "asyncpg.Connection": _asyncpg,
    "asyncpg.PoolConnectionProxy": _asyncpg,
    "psycopg.AsyncConnection": _psycopg_async,
    "psycopg.AsyncCursor": _psycopg_async_cursor,
    "sqlalchemy.AsyncConnection": _sqlalchemy_async,
    "sqlalchemy.AsyncSession": _sqlalchemy_async_session,
    "sqlalchemy.async_scoped_session": _sqlalchemy_async_session,
}
_NOT_IN_A_TRANSACTION: Mapping[str, str] = {
    "sqlalchemy.Engine": "the Connection that engine.begin() gives you",
    "sqlalchemy.AsyncEngine": "the AsyncConnection that engine.begin() gives you",
    "sqlalchemy.sessionmaker": "a Session of it",
    "sqlalchemy.async_sessionmaker": "an AsyncSession of it",
    "sqlalchemy.SessionTransaction": "the Session that it belongs to",
    "asyncpg.Pool": "the connection that pool.acquire() gives you",
    "asyncpg.Transaction": "the connection that it belongs to",
    "psycopg.Transaction": "the Connection that it belongs to",
    "psycopg.AsyncTransaction": "the AsyncConnection that it belongs to",
    "psycopg_pool.ConnectionPool": "the Connection that pool.connection() gives you",
    "psycopg_pool.AsyncConnectionPool": "the AsyncConnection that pool.connection() gives you",
    "aiosqlite.Cursor": "the Connection that it belongs to",
    "django.ConnectionHandler": "one of its connections, such as connections['default']",
}
