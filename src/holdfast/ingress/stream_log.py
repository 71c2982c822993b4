"""A stream as an ordered log: append in the caller's own transaction, and close it.

Writers of one stream are serialized: the second waits for the first to commit or roll back. So `seq` has no gaps, and
its order is the order of the commits.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping

from holdfast.domain.errors import BadInput
from holdfast.domain.event import Appended, NewEvent, check_name
from holdfast.domain.ids import ENTROPY_BYTES
from holdfast.domain.json_value import Json
from holdfast.domain.text import short_repr
from holdfast.ingress.publish import event_from_call
from holdfast.store.door import Door, Tables, run_on, run_on_async
from holdfast.store.drivers import Calls

APPEND = Calls("append()", "append_async()")
CLOSE = Calls("close()", "close_async()")
CLOSED_TYPE = "stream.closed"


class StreamLog:
    """One stream. Get it with `outbox.stream(name)`; that opens no connection."""

    def __init__(self, name: str, tables: Tables) -> None:
        self.name, self._tables = check_name(name, "stream"), tables

    def append(
        self, connection: object, type: str, payload: object = None, *, expected_seq: int | None = None, **fields: Json
    ) -> Appended:
        """Append an event in the caller's transaction and return its place in the stream.

            outbox.stream("run:1").append(connection, "step.done", {"step": 3}, expected_seq=4)

        `expected_seq`: the `seq` that this event must get, so the one after the last event you have read. If another
        writer was faster, nothing is appended and Conflict is raised; on PostgreSQL the transaction has to be rolled
        back then. `fields` are those of `publish` except `stream`, `to` and `at`.
        """
        event = self._event(type, payload, fields)
        return run_on(connection, self._tables, APPEND, Door.append, event, _seq(expected_seq), *_now())

    async def append_async(
        self, connection: object, type: str, payload: object = None, *, expected_seq: int | None = None, **fields: Json
    ) -> Appended:
        """The same on a connection that is awaited."""
        event = self._event(type, payload, fields)
        return await run_on_async(connection, self._tables, APPEND, Door.append, event, _seq(expected_seq), *_now())

    def close(self, connection: object, type: str = CLOSED_TYPE, payload: object = None, **fields: Json) -> Appended:
        """Append the last event of the stream. Every later append raises StreamClosed, and live tails end after it."""
        event = self._event(type, payload, fields)
        return run_on(connection, self._tables, CLOSE, Door.close_stream, event, *_now())

    async def close_async(
        self, connection: object, type: str = CLOSED_TYPE, payload: object = None, **fields: Json
    ) -> Appended:
        """The same on a connection that is awaited."""
        event = self._event(type, payload, fields)
        return await run_on_async(connection, self._tables, CLOSE, Door.close_stream, event, *_now())

    def _event(self, type: str, payload: object, fields: Mapping[str, Json]) -> NewEvent:
        for name in ("stream", "at"):
            if name in fields:
                raise BadInput(f"append() takes no {name}=: the event belongs to stream {short_repr(self.name)} now")
        return event_from_call(type, payload, {**fields, "stream": self.name})


def _seq(expected_seq: object) -> int | None:
    if expected_seq is None:
        return None
    if not isinstance(expected_seq, int) or isinstance(expected_seq, bool) or not 1 <= expected_seq < 1 << 62:
        raise BadInput(f"expected_seq must be a whole number from 1, not {short_repr(expected_seq)}")
    return expected_seq


def _now() -> tuple[int, bytes]:
    return time.time_ns() // 1_000_000, os.urandom(ENTROPY_BYTES)
