"""Any other sender of JSON. Events carry the source's name."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.domain.inbound_event import HookEvent
from holdfast.domain.json_value import Json
from holdfast.ingress.webhook.platforms.platform import Platform
from holdfast.ingress.webhook.platforms.reading import at_path, event_type, fitted, type_words

TEXT_MAX = 200
FIELDS_MAX = 20


def normalize(
    name: str,
    payload: Json,
    headers: Mapping[str, str],
    type_header: str | None = None,
    type_field: str | None = None,
) -> HookEvent:
    """`<name>.received`, or `<name>.<event>` where a header or a field names the event.

    Texts, numbers and booleans at the top of an object become properties; so does the event's name, as `event`.
    """
    event = headers.get(type_header) if type_header else at_path(payload, type_field) if type_field else None
    fields = payload if isinstance(payload, Mapping) else {}
    simple = {key: value for key, value in fields.items() if isinstance(value, str | int | float) and _is_name(key)}
    first = {key: _clipped(value) for key, value in list(simple.items())[:FIELDS_MAX]}
    return HookEvent(
        source=name,
        type=event_type(name, type_words(event or "") or "received"),
        properties=fitted({**first, **({"event": event[:TEXT_MAX]} if event else {})}),
        payload=payload,
    )


def _clipped(value: str | int | float) -> str | int | float:
    return value[:TEXT_MAX] if isinstance(value, str) else value


def _is_name(key: str) -> bool:
    return 0 < len(key) <= 100 and key.isprintable() and key == key.strip()


PLATFORM = Platform("json", normalize, headers=("x-event-key", "x-hook-event"), takes_source_name=True)
