"""Senders without a page of their own: Standard Webhooks, and any JSON at all. They go by the name of their source."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.domain.hook_event import HookEvent
from holdfast.ingress.normalizers.reading import dig, event_type, object_of, properties, rfc3339, text

ID_HEADERS = ("webhook-id", "svix-id")


def standard(name: str, payload: Any, headers: Mapping[str, str]) -> HookEvent:
    """`{type, timestamp, data}` becomes `<name>.<type>`."""
    body = object_of(payload, "Standard Webhooks")
    kind = text(body, "type")
    return HookEvent(
        source=name,
        type=event_type(name, kind or "received"),
        timestamp=rfc3339(dig(body, "timestamp")),
        properties=properties(event=kind, webhook_id=delivery_id(body, headers)),
        payload=body,
    )


def received(name: str, payload: Any, headers: Mapping[str, str]) -> HookEvent:
    """`<name>.received`, whatever it is. Texts, numbers and truths at the top of an object become properties."""
    fields = payload if isinstance(payload, Mapping) else {}
    plain = {key: value for key, value in fields.items() if isinstance(value, str | int | float) and _is_name(key)}
    first = dict(list(plain.items())[:20])
    return HookEvent(
        source=name,
        type=event_type(name, "received"),
        properties={key: value[:200] if isinstance(value, str) else value for key, value in first.items()},
        payload=payload,
    )


def delivery_id(payload: Any, headers: Mapping[str, str]) -> str | None:
    return next((found for header in ID_HEADERS if (found := headers.get(header))), None)


def _is_name(key: str) -> bool:
    return 0 < len(key) <= 100 and key.isprintable() and key == key.strip()
