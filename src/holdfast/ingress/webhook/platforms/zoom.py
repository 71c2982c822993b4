"""Zoom: `X-Zm-Signature: v0=<hex>` over `v0:time:body`.

Before it sends anything, and every 72 hours after, Zoom asks for proof of the secret (`endpoint.url_validation`), in a
request that is signed like all others and must be answered within three seconds. Zoom sends no delivery id; a retry
(after 5, 20 and 60 minutes) has the same body, whose `event_ts` counts milliseconds.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping

from holdfast.domain.inbound_event import HookEvent
from holdfast.domain.json_value import Json
from holdfast.ingress.webhook.platforms.platform import Platform
from holdfast.ingress.webhook.platforms.reading import (
    dig,
    event_type,
    fingerprint,
    object_of,
    properties,
    stream,
    text,
    unix_ms,
)
from holdfast.ingress.webhook.verifiers import signature
from holdfast.ingress.webhook.verifiers.scheme import Scheme

VALIDATION = "endpoint.url_validation"


def normalize(payload: Json, headers: Mapping[str, str]) -> HookEvent:
    """`zoom.meeting.started`, …, one stream per meeting, webinar, …, or per account where there is none."""
    body = object_of(payload, "Zoom")
    kind, account = text(body, "event") or "unknown", text(body, "payload", "account_id")
    object_id = text(body, "payload", "object", "id")
    return HookEvent(
        source="zoom",
        type=event_type("zoom", kind),
        timestamp=unix_ms(dig(body, "event_ts")),
        properties=properties(
            event=kind,
            account=account,
            object_id=object_id,
            uuid=text(body, "payload", "object", "uuid"),
            host=text(body, "payload", "object", "host_id"),
            topic=text(body, "payload", "object", "topic"),
            operator=text(body, "payload", "operator"),
        ),
        payload=body,
        stream=stream("zoom", object_id or account),
    )


def delivery_id(payload: Json, headers: Mapping[str, str]) -> str | None:
    return fingerprint(payload) if text(payload, "event") and text(payload, "event_ts") else None


def challenge(payload: Json, secret: str) -> Json:
    """Zoom's token and its HMAC by the secret that signed the request."""
    plain = text(payload, "payload", "plainToken")
    if text(payload, "event") != VALIDATION or plain is None or len(plain) > 1000:
        return None
    digest = hmac.new(secret.encode("utf-8"), plain.encode("utf-8"), hashlib.sha256)
    return {"plainToken": plain, "encryptedToken": digest.hexdigest()}


_SCHEME = Scheme("x-zm-signature", "v0:{timestamp}:{body}", prefix="v0=", timestamp_header="x-zm-request-timestamp")
PLATFORM = Platform("zoom", normalize, signature("zoom", _SCHEME), delivery_id=delivery_id, challenge=challenge)
