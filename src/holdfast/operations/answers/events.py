"""Answers about events."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field

from holdfast.domain.address import without_tokens
from holdfast.domain.event import Event
from holdfast.operations.answers.deliveries import DeliveryAnswer
from holdfast.operations.answers.encode import encode
from holdfast.operations.answers.fields import OMITTED_IF_NONE, Time, extend

_encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode


@dataclass(frozen=True, slots=True)
class AppendedEvent:
    """An accepted event. `duplicate`: its `dedup_key` was known, and this is the first event with that key."""

    id: str
    stream: str
    seq: int
    duplicate: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class EventAnswer:
    """One event. `to` is there only if the event has a direct address; secrets in it are masked."""

    id: str
    stream: str
    seq: int
    source: str
    type: str
    timestamp: str
    accepted_at: Time
    properties: object
    payload: object
    to: str | None = field(default=None, metadata=OMITTED_IF_NONE)


@dataclass(frozen=True, slots=True, kw_only=True)
class EventWithDeliveries(EventAnswer):
    """One event and its deliveries, oldest first."""

    deliveries: list[DeliveryAnswer]


@dataclass(frozen=True, slots=True)
class RoutedEvents:
    """How many events were queued for routing again."""

    routed: int


def event_answer(event: Event) -> EventAnswer:
    return EventAnswer(**event.as_dict(), to=None if event.to is None else without_tokens(event.to))


def event_json(event: Event) -> bytes:
    """The JSON text of an event on one line, for live views."""
    return _encode(encode(event_answer(event))).encode("utf-8", "replace")


def event_with_deliveries(event: Event, deliveries: Iterable[DeliveryAnswer]) -> EventWithDeliveries:
    return extend(EventWithDeliveries, event_answer(event), deliveries=list(deliveries))
