"""Publish inside the caller's own transaction: one statement on the caller's connection, and nothing else.

No commit, no connection of our own, no server code. What commits is the caller's business; then both the business
row and the event are there, or neither.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from holdfast.domain.errors import BadInput
from holdfast.domain.event import NewEvent, new_event
from holdfast.domain.text import short_repr
from holdfast.ingress.accept import check_direct_address, reject_unknown_keys
from holdfast.store.door import Door, Published, Steps, run_on, run_on_async, schema_of

__all__ = [
    "Published",
    "event_from_call",
    "event_from_mapping",
    "plain",
    "publish",
    "publish_async",
    "publish_many",
    "publish_many_async",
    "schema_of",
]  # fmt: skip

FIELDS = ("type", "payload", "stream", "dedup", "source", "properties", "timestamp", "to", "at")


def publish(connection: Any, event: NewEvent, schema: str) -> Published:
    """Append through the door of the caller's database."""
    return run_on(connection, _one(event), schema)


async def publish_async(connection: Any, event: NewEvent, schema: str) -> Published:
    """Append through the door of a database that is awaited."""
    return await run_on_async(connection, _one(event), schema)


def publish_many(connection: Any, events: Sequence[NewEvent], schema: str) -> list[Published]:
    """Append several, streams in sorted order; the answers come in the order given."""
    return run_on(connection, _several(events), schema)


async def publish_many_async(connection: Any, events: Sequence[NewEvent], schema: str) -> list[Published]:
    return await run_on_async(connection, _several(events), schema)


def event_from_mapping(fields: Mapping[str, Any]) -> NewEvent:
    """One event of `publish_many`, by the names `publish` takes.

    >>> event_from_mapping({"type": "order.placed", "payload": {"id": 42}, "dedup": "order-42"}).dedup_key
    'order-42'
    """
    if not isinstance(fields, Mapping):
        raise BadInput(f"an event is a mapping with at least a type, not {short_repr(fields)}")
    reject_unknown_keys(fields, FIELDS, "an event")
    if "type" not in fields:
        raise BadInput("type is missing: say what happened, such as order.placed")
    given = dict(fields)
    return event_from_call(given.pop("type"), given.pop("payload", None), given)


def event_from_call(type: str, payload: Any, fields: Mapping[str, Any]) -> NewEvent:
    """What `publish` was told: a type, a payload, and what else was said by name."""
    if not fields:
        return new_event(type, plain(payload))
    reject_unknown_keys(fields, FIELDS, "an event")
    others = dict(fields)
    check_direct_address(others.get("to"))
    return new_event(type, plain(payload), dedup_key=others.pop("dedup", None), **others)


def plain(payload: Any) -> Any:
    """A payload as JSON sees it. A pydantic model is asked for its own."""
    dump = getattr(payload, "model_dump", None)
    return payload if dump is None or isinstance(payload, type) else dump(mode="json")


def _one(event: NewEvent) -> Callable[[Door], Steps[Published]]:
    return lambda door: door.publish(event, _now_ms, os.urandom)


def _several(events: Sequence[NewEvent]) -> Callable[[Door], Steps[list[Published]]]:
    return lambda door: door.publish_many(events, _now_ms, os.urandom)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
