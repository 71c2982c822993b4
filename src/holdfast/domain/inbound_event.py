"""HookEvent: what a normalizer makes of a platform's request, in the one form every event has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class HookEvent:
    """One fact out of a request.

    `timestamp`: RFC 3339, or None for when the request was accepted. `stream`: what it is ordered within, or None for
    the source as a whole. `dedup_key`: the platform's own name for the fact, where one request may repeat another's.

    >>> HookEvent("shop", "shop.order.paid", properties={"order": 42}, payload={"id": 42}).type
    'shop.order.paid'
    """

    source: str
    type: str
    timestamp: str | None = None
    properties: Mapping[str, Any] = field(default_factory=dict)
    payload: Any = field(default_factory=dict)
    stream: str | None = None
    dedup_key: str | None = None
