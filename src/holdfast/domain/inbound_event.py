"""HookEvent: the result of a normalizer for one inbound webhook. It has nothing to do with agent hooks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from holdfast.domain.json_value import Json


@dataclass(frozen=True, slots=True)
class HookEvent:
    """One event in the request of an inbound webhook; a request may hold several.

    `timestamp`: RFC 3339, or None for the time when the request was accepted. `stream`: the stream that orders it, or
    None for that of the source. `dedup_key`: the platform's id of the event, if requests may repeat events.

    >>> HookEvent("shop", "shop.order.paid", properties={"order": 42}, payload={"id": 42}).type
    'shop.order.paid'
    """

    source: str
    type: str
    timestamp: str | None = None
    properties: Mapping[str, Json] = field(default_factory=dict)
    payload: Json = field(default_factory=dict)
    stream: str | None = None
    dedup_key: str | None = None
