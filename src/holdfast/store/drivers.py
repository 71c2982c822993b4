"""Run one statement on the caller's own connection, with any supported driver.

A driver is recognized by the name of its class and module, so that nothing is imported that the caller has not loaded
already. Each has the dialect of its database, its parameter style, and a function that runs one statement. None of
them begins, commits or opens anything.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any, Generic, NamedTuple, TypeVar

from holdfast.domain.errors import BadInput

Row = tuple[Any, ...]
Statement = tuple[str, tuple[Any, ...]]  # text and values
R = TypeVar("R")

SQLITE, POSTGRES = "sqlite", "postgres"
QMARK, FORMAT, DOLLAR = "qmark", "format", "dollar"

_DIALECTS = {"sqlite": SQLITE, "postgresql": POSTGRES}
_MARKS = {"qmark": QMARK, "format": FORMAT, "pyformat": FORMAT, "numeric_dollar": DOLLAR}
_PLAIN = {"no_parameters": True}  # SQLAlchemy: without values, a % in the text is not a parameter


class Driver(NamedTuple, Generic[R]):
    """How to use connections of one kind. `rows` returns the rows of a statement, or an awaitable of them."""

    dialect: str
    marks: str
    rows: Callable[[Any, str, tuple[Any, ...]], R]


Sync = Driver[Sequence[Row]]
Async = Driver[Awaitable[Sequence[Row]]]


class Calls(NamedTuple):
    """The functions named in error messages: for a blocking connection and for an async one."""

    sync: str = "publish()"
    awaited: str = "publish_async()"


def sync_driver(connection: Any, calls: Calls) -> tuple[Sync, Any]:
    """The driver for a blocking connection, and the connection itself (that of a given session or cursor)."""
    kind: Any = type(connection)
    reach = _reach(kind)
    if reach is None:
        raise _refuse(kind, calls.sync, calls.awaited, _ASYNC, _SYNC)
    return reach(connection)


async def async_driver(connection: Any, calls: Calls) -> tuple[Async, Any]:
    """The same for an async connection."""
    kind: Any = type(connection)
    reach = _reach_async(kind)
    if reach is None:
        raise _refuse(kind, calls.awaited, calls.sync, _SYNC, _ASYNC)
    return await reach(connection)


@lru_cache(maxsize=64)
def _reach(kind: Any) -> Callable[[Any], tuple[Sync, Any]] | None:
    return _find(kind, _SYNC)


@lru_cache(maxsize=64)
def _reach_async(kind: Any) -> Callable[[Any], Awaitable[tuple[Async, Any]]] | None:
    return _find(kind, _ASYNC)


def _find(kind: type, known: Mapping[str, R]) -> R | None:
    for base in kind.__mro__:
        found = known.get(f"{base.__module__.partition('.')[0]}.{base.__name__}")
        if found is not None:
            return found
    return None


def _refuse(kind: type, verb: str, other: str, others: Mapping[str, Any], known: Mapping[str, Any]) -> BadInput:
    name = f"{kind.__module__}.{kind.__qualname__}"
    if _find(kind, others) is not None:
        return BadInput(f"{verb} cannot use a {name}; use {other} with it")
    if (instead := _find(kind, _NOT_IN_A_TRANSACTION)) is not None:
        return BadInput(f"a {name} runs no transaction; pass {verb} {instead}")
    return BadInput(
        f"{verb} takes the connection your transaction runs on; {name} is not one it knows: "
        f"pass one of {', '.join(sorted(known))}"
    )


def _sqlite3_rows(connection: Any, sql: str, params: tuple[Any, ...]) -> list[Row]:
    cursor = connection.cursor()
    cursor.row_factory = None  # rows are tuples, whatever factory the application set
    try:
        return _texts(connection, list(cursor.execute(sql, params)))
    finally:
        cursor.close()


def _texts(connection: Any, rows: list[Row]) -> list[Row]:
    """Texts are strings, whatever `text_factory` the application set."""
    if connection.text_factory is str:
        return rows
    return [tuple(value.decode() if isinstance(value, bytes) else value for value in row) for row in rows]


def _apsw_rows(connection: Any, sql: str, params: tuple[Any, ...]) -> list[Row]:
    cursor = connection.cursor()
    cursor.row_trace = lambda _, row: row
    return list(cursor.execute(sql, params))


@cache
def _tuple_row() -> Any:
    from psycopg.rows import tuple_row

    return tuple_row


def _psycopg_rows(connection: Any, sql: str, params: tuple[Any, ...]) -> list[Row]:
    cursor = connection.cursor(row_factory=_tuple_row()).execute(sql, params or None)
    return cursor.fetchall()  # type: ignore[no-any-return]  # in a pipeline this is what waits for the answer


def _sqlalchemy_rows(connection: Any, sql: str, params: tuple[Any, ...]) -> Sequence[Row]:
    result = connection.exec_driver_sql(sql, params or None, _PLAIN)
    return result.fetchall() if result.returns_rows else []


def _django_rows(connection: Any, sql: str, params: tuple[Any, ...]) -> list[Row]:
    with connection.cursor() as cursor:
        cursor.execute(sql, params or None)
        return cursor.fetchall() if cursor.description else []


async def _aiosqlite_rows(connection: Any, sql: str, params: tuple[Any, ...]) -> list[Row]:
    async with connection.cursor() as cursor:
        cursor.row_factory = None
        await cursor.execute(sql, params)
        return _texts(connection, list(await cursor.fetchall()))


async def _psycopg_async_rows(connection: Any, sql: str, params: tuple[Any, ...]) -> list[Row]:
    cursor = await connection.cursor(row_factory=_tuple_row()).execute(sql, params or None)
    return await cursor.fetchall()  # type: ignore[no-any-return]


@cache
def _record() -> Any:
    from asyncpg import Record

    return Record


def _asyncpg_rows(connection: Any, sql: str, params: tuple[Any, ...]) -> Awaitable[Sequence[Row]]:
    return connection.fetch(sql, *params, record_class=_record())  # type: ignore[no-any-return]


async def _sqlalchemy_async_rows(connection: Any, sql: str, params: tuple[Any, ...]) -> Sequence[Row]:
    result = await connection.exec_driver_sql(sql, params or None, _PLAIN)
    return result.fetchall() if result.returns_rows else []


def _itself(driver: Sync) -> Callable[[Any], tuple[Sync, Any]]:
    return lambda connection: (driver, connection)


def _of_cursor(driver: Sync) -> Callable[[Any], tuple[Sync, Any]]:
    return lambda cursor: (driver, cursor.connection)


def _psycopg(connection: Any) -> tuple[Sync, Any]:
    return _PSYCOPG_RAW if _is_raw(connection.cursor_factory) else _PSYCOPG, connection


def _psycopg_cursor(cursor: Any) -> tuple[Sync, Any]:
    return _psycopg(cursor.connection)


@lru_cache(maxsize=64)
def _is_raw(cursor_kind: Any) -> bool:
    """Whether cursors of this kind use the server's own parameter style ($1)."""
    return any(base.__name__.endswith("RawCursor") for base in cursor_kind.__mro__)


def _sqlalchemy(connection: Any) -> tuple[Sync, Any]:
    return Driver(*_dialect_and_marks(connection.dialect), _sqlalchemy_rows), connection


def _sqlalchemy_session(session: Any) -> tuple[Sync, Any]:
    return _sqlalchemy(session.connection())


def _django(connection: Any) -> tuple[Sync, Any]:
    return Driver(dialect_named(connection.vendor), FORMAT, _django_rows), connection


def _django_cursor(cursor: Any) -> tuple[Sync, Any]:
    return _django(cursor.db)


def _itself_async(driver: Async) -> Callable[[Any], Awaitable[tuple[Async, Any]]]:
    async def reach(connection: Any) -> tuple[Async, Any]:
        return driver, connection

    return reach


async def _psycopg_async(connection: Any) -> tuple[Async, Any]:
    return _PSYCOPG_ASYNC_RAW if _is_raw(connection.cursor_factory) else _PSYCOPG_ASYNC, connection


async def _psycopg_async_cursor(cursor: Any) -> tuple[Async, Any]:
    return await _psycopg_async(cursor.connection)


async def _sqlalchemy_async(connection: Any) -> tuple[Async, Any]:
    return Driver(*_dialect_and_marks(connection.dialect), _sqlalchemy_async_rows), connection


async def _sqlalchemy_async_session(session: Any) -> tuple[Async, Any]:
    return await _sqlalchemy_async(await session.connection())


def _dialect_and_marks(dialect: Any) -> tuple[str, str]:
    marks = _MARKS.get(dialect.paramstyle)
    if marks is None:
        raise BadInput(f"the SQLAlchemy driver {dialect.driver} writes parameters as {dialect.paramstyle}")
    return dialect_named(dialect.name), marks


def dialect_named(name: str) -> str:
    """Our name of a database, from the name that SQLAlchemy and Django use."""
    if name not in _DIALECTS:
        raise BadInput(f"Holdfast keeps its events in SQLite or PostgreSQL; this connection is to {name}")
    return _DIALECTS[name]


_SQLITE3: Sync = Driver(SQLITE, QMARK, _sqlite3_rows)
_APSW: Sync = Driver(SQLITE, QMARK, _apsw_rows)
_PSYCOPG: Sync = Driver(POSTGRES, FORMAT, _psycopg_rows)
_PSYCOPG_RAW: Sync = Driver(POSTGRES, DOLLAR, _psycopg_rows)
_AIOSQLITE: Async = Driver(SQLITE, QMARK, _aiosqlite_rows)
_ASYNCPG: Async = Driver(POSTGRES, DOLLAR, _asyncpg_rows)
_PSYCOPG_ASYNC: Async = Driver(POSTGRES, FORMAT, _psycopg_async_rows)
_PSYCOPG_ASYNC_RAW: Async = Driver(POSTGRES, DOLLAR, _psycopg_async_rows)

_SYNC: Mapping[str, Callable[[Any], tuple[Sync, Any]]] = {
    "sqlite3.Connection": _itself(_SQLITE3),
    "sqlite3.Cursor": _of_cursor(_SQLITE3),
    "apsw.Connection": _itself(_APSW),
    "apsw.Cursor": _of_cursor(_APSW),
    "psycopg.Connection": _psycopg,
    "psycopg.Cursor": _psycopg_cursor,
    "sqlalchemy.Connection": _sqlalchemy,
    "sqlalchemy.Session": _sqlalchemy_session,
    "sqlalchemy.scoped_session": _sqlalchemy_session,
    "django.BaseDatabaseWrapper": _django,
    "django.ConnectionProxy": _django,
    "django.CursorWrapper": _django_cursor,
}
_ASYNC: Mapping[str, Callable[[Any], Awaitable[tuple[Async, Any]]]] = {
    "aiosqlite.Connection": _itself_async(_AIOSQLITE),
    "asyncpg.Connection": _itself_async(_ASYNCPG),
    "asyncpg.PoolConnectionProxy": _itself_async(_ASYNCPG),
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
