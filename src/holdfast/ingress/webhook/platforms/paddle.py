"""Paddle Billing: `Paddle-Signature: ts=…;h1=…`, hex HMAC-SHA256 over `ts:body`; several h1 while a key is rotated.

`event_id` is the same over retries (60 in three days on a live account) and over a notification that is replayed.
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
    """`paddle.transaction.completed`, …, one stream per customer, or per object where there is none."""
    body = object_of(payload, "Paddle")
    kind = text(body, "event_type") or "unknown"
    thing = dig(body, "data")
    object_id = text(thing, "id")
    customer = text(thing, "customer_id") or (object_id if kind.startswith("customer.") else None)
    return HookEvent(
        source="paddle",
        type=event_type("paddle", kind),
        timestamp=rfc3339(dig(body, "occurred_at")),
        properties=properties(
            event_id=text(body, "event_id"),
            event=kind,
            notification_id=text(body, "notification_id"),
            object_id=object_id,
            customer=customer,
            subscription=text(thing, "subscription_id"),
            status=text(thing, "status"),
        ),
        payload=body,
        stream=stream("paddle", customer or object_id),
    )


def delivery_id(payload: Json, headers: Mapping[str, str]) -> str | None:
    return text(payload, "event_id")


_SCHEME = Scheme("paddle-signature", "{timestamp}:{body}", separator=";", signature_key="h1", timestamp_key="ts")
PLATFORM = Platform("paddle", normalize, signature("paddle", _SCHEME), delivery_id=delivery_id)
