"""Publish inside the caller's own transaction: one statement on the caller's connection.

Nothing here commits, opens a connection or imports server code. The event exists when the caller's transaction
commits, together with the caller's own rows, or not at all.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence

from holdfast.domain.errors import BadInput
from holdfast.domain.event import NewEvent, new_event
from holdfast.domain.ids import ENTROPY_BYTES
from holdfast.domain.json_value import KnownJson
from holdfast.domain.text import short_repr
from holdfast.ingress.accept import TYPE_MISSING, reject_unknown_keys
from holdfast.ingress.trace_context import current_traceparent, with_traceparent
from holdfast.store.door import PUBLISH, Door, Published, Tables, run_on, run_on_async, tables_of

__all__ = [
    "Published", "event_from_call", "event_from_mapping",
    "publish", "publish_async", "publish_many", "publish_many_async", "tables_of",
]  # fmt: skip

FIELDS = ("type", "payload", "stream", "dedup", "source", "properties", "timestamp", "to", "at")


def publish(connection: object, event: NewEvent, tables: Tables) -> Published:
    """Append through the door of the caller's database."""
    return run_on(connection, tables, PUBLISH, Door.publish, event, _now_ms(), os.urandom(ENTROPY_BYTES))


async def publish_async(connection: object, event: NewEvent, tables: Tables) -> Published:
    """Append through the door of a database that is awaited."""
    return await run_on_async(connection, tables, PUBLISH, Door.publish, event, _now_ms(), os.urandom(ENTROPY_BYTES))


def publish_many(connection: object, events: Sequence[NewEvent], tables: Tables) -> list[Published]:
    """Append several, streams in sorted order. The answers come in the order of `events`."""
    entropy = os.urandom(ENTROPY_BYTES * len(events))
    return run_on(connection, tables, PUBLISH, Door.publish_many, events, _now_ms(), entropy)


async def publish_many_async(connection: object, events: Sequence[NewEvent], tables: Tables) -> list[Published]:
    entropy = os.urandom(ENTROPY_BYTES * len(events))
    return await run_on_async(connection, tables, PUBLISH, Door.publish_many, events, _now_ms(), entropy)


def event_from_mapping(fields: Mapping[str, object]) -> NewEvent:
    """One event of `publish_many`, by the names that `publish` takes.

    >>> event_from_mapping({"type": "order.placed", "payload": {"id": 42}, "dedup": "order-42"}).dedup_key
    'order-42'
    """
    if not isinstance(fields, Mapping):
        raise BadInput(f"an event is a mapping with at least a type, not {short_repr(fields)}")
    reject_unknown_keys(fields, FIELDS, "an event")
    if "type" not in fields:
        raise BadInput(TYPE_MISSING)
    named: dict[str, KnownJson] = dict(fields)  # new_event checks each
    return event_from_call(named.pop("type"), named.pop("payload", None), named)


def event_from_call(type: str, payload: object, fields: Mapping[str, object]) -> NewEvent:
    """The event of one `publish` call: its type, its payload and its keyword arguments."""
    fields = with_traceparent(fields, current_traceparent())
    if not fields:
        return new_event(type, payload)
    reject_unknown_keys(fields, FIELDS, "an event")
    named: dict[str, KnownJson] = dict(fields)  # new_event checks each
    return new_event(type, payload, dedup_key=named.pop("dedup", None), **named)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
