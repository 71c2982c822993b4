"""The door of the caller's database: one statement on the caller's connection, whatever driver it is of."""

from __future__ import annotations

import sqlite3
from typing import Any

from holdfast.domain.errors import BadInput, StoreMissing
from holdfast.domain.event import NewEvent


def append_through(connection: Any, event: NewEvent, id: str, now_ms: int) -> str:
    """Append in the transaction the connection is in. The event's id: its own, or the first one's of its key."""
    if isinstance(connection, sqlite3.Connection):
        return _append_sqlite3(connection, event, id, now_ms)
    kind = type(connection)
    raise BadInput(
        f"publish() takes the connection your transaction runs on; {kind.__module__}.{kind.__qualname__} "
        f"is not one it knows: pass a sqlite3.Connection"
    )


def _append_sqlite3(connection: sqlite3.Connection, event: NewEvent, id: str, now_ms: int) -> str:
    from holdfast.store.sqlite.connection import translate_stdlib
    from holdfast.store.sqlite.events import door_row
    from holdfast.store.sqlite.statements import sql

    try:
        connection.execute(sql.event_append, door_row(event, id, now_ms))
    except sqlite3.Error as error:
        if "no such table: holdfast_publish" in str(error):
            raise StoreMissing(
                "this database holds no Holdfast tables yet; run outbox.migrate() once, or: holdfast db migrate"
            ) from None
        raise translate_stdlib(error) from error
    if event.dedup_key is None:
        return id
    return str(connection.execute(sql.event_first, (event.source, event.dedup_key)).fetchone()[0])
