"""Zendesk: base64 HMAC-SHA256 over time and body, the time in RFC 3339. Signing is by a secret of each webhook.

A webhook that subscribes to events has a body of a fixed shape; one that a trigger calls has the body its author wrote.
`X-Zendesk-Webhook-Invocation-Id` names the invocation, of which retries are further attempts.
"""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.domain.inbound_event import HookEvent
from holdfast.domain.json_value import Json
from holdfast.ingress.webhook.platforms.platform import Platform
from holdfast.ingress.webhook.platforms.reading import dig, event_type, properties, rfc3339, stream, text
from holdfast.ingress.webhook.verifiers import signature
from holdfast.ingress.webhook.verifiers.scheme import Scheme

TYPE_PREFIX = "zen:event-type:"
SUBJECT_PREFIX = "zen:"


def normalize(payload: Json, headers: Mapping[str, str]) -> HookEvent:
    """`zendesk.ticket.created`, …, one stream per ticket, user, …; `zendesk.received` for what a trigger sent."""
    kind, subject = text(payload, "type") or "", text(payload, "subject") or ""
    known = kind.startswith(TYPE_PREFIX)
    return HookEvent(
        source="zendesk",
        type=event_type("zendesk", kind.removeprefix(TYPE_PREFIX) if known else "received"),
        timestamp=rfc3339(dig(payload, "time")),
        properties=properties(
            event=kind or None,
            event_id=text(payload, "id") if known else None,
            account=text(payload, "account_id") or headers.get("x-zendesk-account-id"),
            subject=subject or None,
            object_id=text(payload, "detail", "id"),
            webhook_id=headers.get("x-zendesk-webhook-id"),
            invocation_id=delivery_id(payload, headers),
        ),
        payload=payload,
        stream=stream("zendesk", subject.removeprefix(SUBJECT_PREFIX) if known else None),
    )


def delivery_id(payload: Json, headers: Mapping[str, str]) -> str | None:
    return headers.get("x-zendesk-webhook-invocation-id")


_SCHEME = Scheme(
    "x-zendesk-webhook-signature",
    "{timestamp}{body}",
    encoding="base64",
    timestamp_header="x-zendesk-webhook-signature-timestamp",
    timestamp_unit="iso",
)
PLATFORM = Platform(
    "zendesk",
    normalize,
    signature("zendesk", _SCHEME),
    ("x-zendesk-account-id", "x-zendesk-webhook-id", "x-zendesk-webhook-invocation-id"),
    delivery_id,
)
