"""Translate driver errors to Holdfast errors, the same for every driver and every wrapper around one."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from holdfast.domain.errors import BadInput, DedupConflict, HoldfastError, StoreBusy, StoreMissing, StreamClosed

_BAD_INPUT, _DEDUP_CONFLICT, _STREAM_CLOSED = "HF001", "HF002", "HF003"
_ABSENT = frozenset({"3F000", "42P01", "42883"})  # no such schema, table, function
_MISSING = "this database holds no Holdfast tables yet; run outbox.migrate() once, or: holdfast db migrate"

_LOCKED = "the database is locked by another writer; wait longer (PRAGMA busy_timeout) or run your transaction again"


def translated(error: BaseException) -> HoldfastError | None:
    """Our error for a driver's, or None where the driver's own error is clearer."""
    for cause in _causes(error):
        known = _from_sqlite(cause) or _from_postgres(cause)
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
    return StoreMissing(_MISSING) if isinstance(known, StoreMissing) else known


def _from_postgres(error: BaseException) -> HoldfastError | None:
    """What the door refused, by its code. Deadlocks and lost connections stay the driver's: callers handle those."""
    code, text = getattr(error, "sqlstate", None) or getattr(error, "pgcode", None), str(error)
    if code is None and error.args and isinstance(fields := error.args[0], dict):  # pg8000: the server's fields
        code, text = fields.get("C"), str(fields.get("M"))
    if code == _DEDUP_CONFLICT:
        return DedupConflict("this dedup_key was used before with another body; use a new key for a new fact")
    if code == _STREAM_CLOSED:
        return StreamClosed("the stream is closed and takes no more events")
    if code == _BAD_INPUT:
        return BadInput(text.partition("holdfast: ")[2].partition("\n")[0])
    return StoreMissing(_MISSING) if code in _ABSENT else None
