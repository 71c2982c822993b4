"""Publish inside the caller's own transaction: one statement on the caller's connection, and nothing else.

No commit, no connection of our own, no server code. What commits is the caller's business; then both the business
row and the event are there, or neither.
"""

from __future__ import annotations

import os
import sqlite3
import time
from typing import Any, NamedTuple

from holdfast.domain.errors import BadInput, StoreMissing
from holdfast.domain.event import NewEvent
from holdfast.domain.ids import ENTROPY_BYTES, make_id


class Published(NamedTuple):
    """The event's id. It exists once the caller's transaction commits."""

    id: str


def publish(connection: Any, event: NewEvent) -> Published:
    """Append through the door of the caller's database."""
    if not isinstance(connection, sqlite3.Connection):
        raise BadInput(
            f"publish() takes the connection your transaction runs on; {type(connection).__module__}."
            f"{type(connection).__qualname__} is not one it knows: pass a sqlite3.Connection"
        )
    from holdfast.store.sqlite.connection import translate_stdlib
    from holdfast.store.sqlite.events import door_row
    from holdfast.store.sqlite.statements import sql

    now_ms = time.time_ns() // 1_000_000
    id = event.id or make_id("evt", now_ms, os.urandom(ENTROPY_BYTES))
    try:
        connection.execute(sql.event_append, door_row(event, id, now_ms))
    except sqlite3.Error as error:
        if "no such table: holdfast_publish" in str(error):
            raise StoreMissing(
                "this database holds no Holdfast tables yet; run outbox.migrate() once, or: holdfast db migrate"
            ) from None
        raise translate_stdlib(error) from error
    if event.dedup_key is not None:
        return Published(connection.execute(sql.event_first, (event.source, event.dedup_key)).fetchone()[0])
    return Published(id)
