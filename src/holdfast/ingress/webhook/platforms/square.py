"""Square: base64 HMAC-SHA256 over the notification URL and the body, by the subscription's signature key.

`event_id` is the same over retries, which go on for a day.
"""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.domain.inbound_event import HookEvent
from holdfast.domain.json_value import Json
from holdfast.ingress.webhook.platforms.platform import Platform
from holdfast.ingress.webhook.platforms.reading import dig, event_type, object_of, properties, rfc3339, stream, text
from holdfast.ingress.webhook.verifiers import signature
from holdfast.ingress.webhook.verifiers.scheme import Scheme


def normalize(payload: Json, headers: Mapping[str, str]) -> HookEvent:
    """`square.payment.updated`, …, one stream per merchant."""
    body = object_of(payload, "Square")
    kind, merchant = text(body, "type") or "unknown", text(body, "merchant_id")
    return HookEvent(
        source="square",
        type=event_type("square", kind),
        timestamp=rfc3339(dig(body, "created_at")),
        properties=properties(
            event_id=text(body, "event_id"),
            event=kind,
            merchant=merchant,
            location=text(body, "location_id"),
            object=text(body, "data", "type"),
            object_id=text(body, "data", "id"),
            environment=headers.get("square-environment"),
        ),
        payload=body,
        stream=stream("square", merchant),
    )


def delivery_id(payload: Json, headers: Mapping[str, str]) -> str | None:
    return text(payload, "event_id")


_SCHEME = Scheme("x-square-hmacsha256-signature", "{url}{body}", encoding="base64")
PLATFORM = Platform("square", normalize, signature("square", _SCHEME), ("square-environment",), delivery_id)
