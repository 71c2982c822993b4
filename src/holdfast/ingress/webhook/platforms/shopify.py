"""Shopify: base64 HMAC-SHA256 of the body by the app's client secret; what happened stands only in a header.

Several webhooks of one change share `X-Shopify-Event-Id`; `X-Shopify-Webhook-Id` names the delivery and stays the
same over its retries (eight in four hours). Shopify waits five seconds for the answer.
"""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.domain.inbound_event import HookEvent
from holdfast.domain.json_value import Json
from holdfast.ingress.webhook.platforms.platform import Platform
from holdfast.ingress.webhook.platforms.reading import (
    event_type,
    object_of,
    properties,
    rfc3339,
    stream,
    text,
    type_words,
)
from holdfast.ingress.webhook.verifiers import signature
from holdfast.ingress.webhook.verifiers.scheme import Scheme


def normalize(payload: Json, headers: Mapping[str, str]) -> HookEvent:
    """`shopify.orders.create`, …, one stream per shop."""
    body = object_of(payload, "Shopify")
    topic, shop = headers.get("x-shopify-topic"), headers.get("x-shopify-shop-domain")
    return HookEvent(
        source="shopify",
        type=event_type("shopify", type_words(topic or "") or "unknown"),
        timestamp=rfc3339(headers.get("x-shopify-triggered-at")),
        properties=properties(
            event=topic,
            shop=shop,
            object_id=text(body, "id"),
            graphql_id=text(body, "admin_graphql_api_id"),
            event_id=headers.get("x-shopify-event-id"),
            webhook_id=delivery_id(body, headers),
            api_version=headers.get("x-shopify-api-version"),
        ),
        payload=body,
        stream=stream("shopify", shop),
    )


def delivery_id(payload: Json, headers: Mapping[str, str]) -> str | None:
    return headers.get("x-shopify-webhook-id")


PLATFORM = Platform(
    "shopify",
    normalize,
    signature("shopify", Scheme("x-shopify-hmac-sha256", encoding="base64")),
    (
        "x-shopify-topic",
        "x-shopify-shop-domain",
        "x-shopify-webhook-id",
        "x-shopify-event-id",
        "x-shopify-triggered-at",
        "x-shopify-api-version",
    ),
    delivery_id,
)
