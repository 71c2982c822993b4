"""What a driver raised, as one of our errors: the same for every driver and every wrapper around one."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from holdfast.domain.errors import BadInput, DedupConflict, HoldfastError, StoreMissing, StreamClosed

_DOOR = "holdfast: "
_MISSING = StoreMissing(
    "this database holds no Holdfast tables yet; run outbox.migrate() once, or: holdfast db migrate"
)


def translated(error: BaseException) -> HoldfastError | None:
    """Our error for a driver's, or None where the driver's own says it best."""
    for cause in _causes(error):
        text = str(cause)
        if _DOOR in text:
            return _door_error(text.partition(_DOOR)[2].splitlines()[0])
        if "no such table: holdfast_publish" in text or "no such table: holdfast_inbox" in text:
            return _MISSING
        known = _from_sqlite(cause)
        if known is not None:
            return known
    return None


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The driver's own error first, then what was wrapped around it."""
    inner = getattr(error, "orig", None) or error.__cause__
    if isinstance(inner, BaseException):
        yield from _causes(inner)
    yield error


def _door_error(text: str) -> HoldfastError:
    if text.startswith("dedup_key"):
        return DedupConflict("this dedup_key was used before with another body; use a new key for a new fact")
    if text.startswith("stream is closed"):
        return StreamClosed("the stream is closed and takes no more events")
    return BadInput(text)


def _from_sqlite(error: BaseException) -> HoldfastError | None:
    """SQLite's own troubles (locked, full, damaged), of whichever library."""
    stdlib, apsw = sys.modules.get("sqlite3"), sys.modules.get("apsw")
    if stdlib is not None and isinstance(error, stdlib.Error):
        from holdfast.store.sqlite.connection import translate_stdlib

        return translate_stdlib(error)
    if apsw is not None and isinstance(error, apsw.Error):
        from holdfast.store.sqlite.connection import translate

        return translate(getattr(error, "extendedresult", 0) or getattr(error, "result", 0), str(error))
    return None
