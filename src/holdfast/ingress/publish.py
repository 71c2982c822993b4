"""Publish inside the caller's own transaction: one statement on the caller's connection, and nothing else.

No commit, no connection of our own, no server code. What commits is the caller's business; then both the business
row and the event are there, or neither.
"""

from __future__ import annotations

import os
import time
from typing import Any, NamedTuple

from holdfast.domain.event import NewEvent
from holdfast.domain.ids import ENTROPY_BYTES, make_id
from holdfast.store.door import append_through


class Published(NamedTuple):
    """The event's id. It exists once the caller's transaction commits."""

    id: str


def publish(connection: Any, event: NewEvent) -> Published:
    """Append through the door of the caller's database."""
    now_ms = time.time_ns() // 1_000_000
    id = event.id or make_id("evt", now_ms, os.urandom(ENTROPY_BYTES))
    return Published(append_through(connection, event, id, now_ms))
