"""HubSpot, signature version 3: base64 HMAC-SHA256 over method, URL, body and time (Unix milliseconds).

A request holds up to 100 events. It has no id, `eventId` alone is not unique, and `attemptNumber` grows with each of
the ten retries in a day: an event is known by its portal, subscription, id, object and time, and loses that number.
HubSpot decodes some escapes in the URL before it signs it (`{decoded_url}`).
"""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.domain.inbound_event import HookEvent
from holdfast.domain.json_value import Json, JsonObject
from holdfast.ingress.webhook.platforms.platform import Platform
from holdfast.ingress.webhook.platforms.reading import (
    dig,
    event_type,
    fingerprint,
    object_of,
    properties,
    stream,
    text,
    type_words,
    unix_ms,
)
from holdfast.ingress.webhook.verifiers import signature
from holdfast.ingress.webhook.verifiers.scheme import Scheme

IDENTITY = ("portalId", "subscriptionId", "eventId", "objectId", "occurredAt")


def normalize(payload: Json, headers: Mapping[str, str]) -> HookEvent | list[HookEvent]:
    """`hubspot.contact.creation`, `hubspot.deal.propertychange`, …, one stream per object."""
    if isinstance(payload, list):
        return [_event(object_of(item, "HubSpot")) for item in payload]
    return _event(object_of(payload, "HubSpot"))


def delivery_id(payload: Json, headers: Mapping[str, str]) -> str | None:
    keys = [_identity(item) for item in payload] if isinstance(payload, list) else [_identity(payload)]
    return fingerprint(*keys) if keys and None not in keys else None


def _event(body: JsonObject) -> HookEvent:
    kind, portal, object_id = text(body, "subscriptionType"), text(body, "portalId"), text(body, "objectId")
    return HookEvent(
        source="hubspot",
        type=event_type("hubspot", type_words(kind or "") or "received"),
        timestamp=unix_ms(dig(body, "occurredAt")),
        properties=properties(
            event=kind,
            event_id=text(body, "eventId"),
            portal=portal,
            object_id=object_id,
            object_type=text(body, "objectTypeId"),
            property=text(body, "propertyName"),
            value=text(body, "propertyValue"),
            subscription=text(body, "subscriptionId"),
            change_source=text(body, "changeSource"),
        ),
        payload={name: value for name, value in body.items() if name != "attemptNumber"},
        stream=stream("hubspot", portal, object_id),
        dedup_key=_identity(body),
    )


def _identity(body: Json) -> str | None:
    found = [text(body, name) for name in IDENTITY]
    return "/".join(each or "" for each in found) if found[2] and found[4] else None


_SCHEME = Scheme(
    "x-hubspot-signature-v3",
    "{method}{decoded_url}{body}{timestamp}",
    encoding="base64",
    timestamp_header="x-hubspot-request-timestamp",
    timestamp_unit="ms",
)
PLATFORM = Platform("hubspot", normalize, signature("hubspot", _SCHEME), delivery_id=delivery_id)
