"""Stripe: every event has an id, a type with dots, a time, and the object it is about."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.domain.inbound_event import HookEvent
from holdfast.domain.json_value import Json
from holdfast.ingress.webhook.platforms.platform import Platform
from holdfast.ingress.webhook.platforms.reading import dig, event_type, object_of, properties, stream, text, unix_time
from holdfast.ingress.webhook.verifiers import signature
from holdfast.ingress.webhook.verifiers.scheme import Scheme


def normalize(payload: Json, headers: Mapping[str, str]) -> HookEvent:
    """`stripe.invoice.paid`, …, one stream per customer, or per object if there is no customer."""
    body = object_of(payload, "Stripe")
    kind = text(body, "type") or "unknown"
    thing = dig(body, "data", "object")
    object_id = text(thing, "id") or text(body, "related_object", "id")
    customer = text(thing, "customer") or text(thing, "customer", "id")
    customer = object_id if dig(thing, "object") == "customer" else customer
    live = dig(body, "livemode")
    return HookEvent(
        source="stripe",
        type=event_type("stripe", kind),
        timestamp=unix_time(dig(body, "created")),
        properties=properties(
            event_id=text(body, "id"),
            event=kind,
            object=text(thing, "object") or text(body, "related_object", "type"),
            object_id=object_id,
            customer=customer,
            status=text(thing, "status"),
            account=text(body, "account") or text(body, "context"),
            livemode=live if isinstance(live, bool) else None,
            api_version=text(body, "api_version"),
        ),
        payload=body,
        stream=stream("stripe", customer or object_id),
    )


def delivery_id(payload: Json, headers: Mapping[str, str]) -> str | None:
    return text(payload, "id")


_SCHEME = Scheme("stripe-signature", "{timestamp}.{body}", signature_key="v1", timestamp_key="t")
PLATFORM = Platform("stripe", normalize, signature("stripe", _SCHEME), delivery_id=delivery_id)
