"""Senders without a file of their own: Standard Webhooks, and any JSON. Their events carry the name of the source."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.domain.inbound_event import HookEvent
from holdfast.ingress.webhook.platforms.platform import ID_HEADERS, Platform, standard_id
from holdfast.ingress.webhook.platforms.reading import (
    at_path,
    dig,
    event_type,
    fitted,
    object_of,
    properties,
    rfc3339,
    text,
    type_words,
)
from holdfast.ingress.webhook.verifiers import VERIFIERS


def standard(name: str, payload: Any, headers: Mapping[str, str]) -> HookEvent:
    """`{type, timestamp, data}` becomes `<name>.<type>`."""
    body = object_of(payload, "Standard Webhooks")
    kind = text(body, "type")
    return HookEvent(
        source=name,
        type=event_type(name, kind or "received"),
        timestamp=rfc3339(dig(body, "timestamp")),
        properties=properties(event=kind, webhook_id=standard_id(body, headers)),
        payload=body,
    )


def received(
    name: str,
    payload: Any,
    headers: Mapping[str, str],
    type_header: str | None = None,
    type_field: str | None = None,
) -> HookEvent:
    """`<name>.received`, or `<name>.<event>` by a header or a field that names the event.

    Texts, numbers and booleans at the top of an object become properties; so does the event's name, as `event`.
    """
    event = headers.get(type_header) if type_header else at_path(payload, type_field) if type_field else None
    fields = payload if isinstance(payload, Mapping) else {}
    plain = {key: value for key, value in fields.items() if isinstance(value, str | int | float) and _is_name(key)}
    first = {key: value[:200] if isinstance(value, str) else value for key, value in list(plain.items())[:20]}
    return HookEvent(
        source=name,
        type=event_type(name, type_words(event or "") or "received"),
        properties=fitted({**first, **({"event": event[:200]} if event else {})}),
        payload=payload,
    )


def _is_name(key: str) -> bool:
    return 0 < len(key) <= 100 and key.isprintable() and key == key.strip()


STANDARD = Platform("standard", standard, VERIFIERS["standard"], ID_HEADERS, named=True)
JSON = Platform("json", received, headers=("x-event-key", "x-hook-event"), named=True)
