"""Translate driver errors to Holdfast errors, the same for every driver and every wrapper around one."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

from holdfast.domain.errors import HoldfastError, StoreBusy, StoreMissing
from holdfast.store.door_errors import NO_TABLES, door_error

_MISSING = "this database holds no Holdfast tables yet; "
_CREATE = "run outbox.migrate() once, or: holdfast db migrate --store URL"

_LOCKED = "the database is locked by another writer; wait longer (PRAGMA busy_timeout) or run your transaction again"


def translated(error: BaseException, create: Callable[[], str] | None = None) -> HoldfastError | None:
    """Our error for a driver's, or None where the driver's own error is clearer. `create` says how to create tables."""
    for cause in _causes(error):
        known = _from_sqlite(cause) or _from_postgres(cause)
        if isinstance(known, StoreMissing):
            return StoreMissing(_MISSING + (_CREATE if create is None else create()))
        if known is not None:
            return known
    return None


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The driver's own error first, then what was wrapped around it."""
    inner = getattr(error, "orig", None) or error.__cause__
    if isinstance(inner, BaseException):
        yield from _causes(inner)
    yield error


def _from_sqlite(error: BaseException) -> HoldfastError | None:
    """The door's refusals, and SQLite's own errors (locked, full, damaged), of either library."""
    stdlib, apsw = sys.modules.get("sqlite3"), sys.modules.get("apsw")
    if stdlib is not None and isinstance(error, stdlib.Error):
        code = getattr(error, "sqlite_errorcode", 0)
    elif apsw is not None and isinstance(error, apsw.Error):
        code = getattr(error, "extendedresult", 0) or getattr(error, "result", 0)
    else:
        return None
    from holdfast.store.sqlite.connection import translate

    known = translate(code, str(error))
    if isinstance(known, StoreBusy):
        return StoreBusy(_LOCKED)
    return known


def _from_postgres(error: BaseException) -> HoldfastError | None:
    """What the door refused, by its code. Deadlocks and lost connections stay the driver's: callers handle those."""
    code, text = getattr(error, "sqlstate", None) or getattr(error, "pgcode", None), str(error)
    if code is None and error.args and isinstance(fields := error.args[0], dict):  # pg8000: the server's fields
        code, text = fields.get("C"), str(fields.get("M"))
    return StoreMissing(_MISSING) if code in NO_TABLES else door_error(code, text)
