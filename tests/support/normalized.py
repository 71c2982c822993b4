"""Normalized events of a platform."""

from __future__ import annotations

from typing import Any

from holdfast.domain.event import new_event
from holdfast.domain.inbound_event import HookEvent
from holdfast.ingress.webhook.platforms import find_normalizer


def made(key: str, payload: Any, headers: dict[str, str] | None = None, name: str | None = None) -> list[HookEvent]:
    found = find_normalizer(key, name or key, {})(payload, headers or {})
    events = found if isinstance(found, list) else [found]
    for event in events:  # whatever is made must be an event that can be appended
        new_event(
            event.type, event.payload, source=event.source, stream=event.stream, timestamp=event.timestamp,
            properties=event.properties,
        )  # fmt: skip
    return events


def one(key: str, payload: Any, headers: dict[str, str] | None = None, name: str | None = None) -> HookEvent:
    (event,) = made(key, payload, headers, name)
    return event


SENT_BY = {
    "actor_id", "actor_name", "actor_login", "author_association", "channel_id", "thread", "headline", "text_path",
    "edited",
}  # fmt: skip


def about(event: HookEvent) -> dict[str, Any]:
    """The properties without those that say who sent it; test_senders.py is about these."""
    return {name: value for name, value in event.properties.items() if name not in SENT_BY}


def message(kind: str, **more: Any) -> dict[str, Any]:
    return {"from": "+49 151 2345", "id": f"wamid.{kind}", "timestamp": "1790000000", "type": kind, **more}
