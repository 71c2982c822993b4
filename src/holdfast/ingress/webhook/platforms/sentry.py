"""Sentry's integration platform: hex HMAC-SHA256 of the body by the integration's client secret.

What it is about is in `Sentry-Hook-Resource`. `Request-ID` names the request; Sentry waits one second for the
answer. Its time, `Sentry-Hook-Timestamp`, is not signed.
"""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.domain.inbound_event import HookEvent
from holdfast.domain.json_value import Json
from holdfast.ingress.webhook.platforms.platform import Platform
from holdfast.ingress.webhook.platforms.reading import (
    dig,
    event_type,
    object_of,
    properties,
    stream,
    text,
    type_words,
    unix_time,
)
from holdfast.ingress.webhook.verifiers import signature
from holdfast.ingress.webhook.verifiers.scheme import Scheme


def normalize(payload: Json, headers: Mapping[str, str]) -> HookEvent:
    """`sentry.issue.created`, `sentry.event_alert.triggered`, …, one stream per issue or installation."""
    body = object_of(payload, "Sentry")
    resource = headers.get("sentry-hook-resource")
    data, action = dig(body, "data"), text(body, "action")
    issue = text(data, "issue", "id") or text(data, "event", "issue_id") or text(data, "error", "issue_id")
    installation = text(body, "installation", "uuid") or text(data, "installation", "uuid")
    return HookEvent(
        source="sentry",
        type=event_type("sentry", type_words(resource or "") or "unknown", type_words(action or "")),
        timestamp=unix_time(headers.get("sentry-hook-timestamp")),
        properties=properties(
            event=resource,
            action=action,
            issue_id=issue,
            project=text(data, "issue", "project", "slug") or text(data, "project_slug"),
            level=text(data, "issue", "level") or text(data, "event", "level") or text(data, "error", "level"),
            title=text(data, "issue", "title") or text(data, "event", "title") or text(data, "error", "title"),
            rule=text(data, "triggered_rule") or text(data, "metric_alert", "alert_rule", "name"),
            actor=text(body, "actor", "name"),
            actor_id=text(body, "actor", "id"),
            installation=installation,
            request_id=delivery_id(body, headers),
        ),
        payload=body,
        stream=stream("sentry", issue or installation),
    )


def delivery_id(payload: Json, headers: Mapping[str, str]) -> str | None:
    return headers.get("request-id")


PLATFORM = Platform(
    "sentry",
    normalize,
    signature("sentry", Scheme("sentry-hook-signature")),
    ("sentry-hook-resource", "sentry-hook-timestamp", "request-id"),
    delivery_id,
)
