"""Linear: hex HMAC-SHA256 of the body. The time that is signed is a field of it (`webhookTimestamp`, milliseconds).

`Linear-Delivery` names the delivery and stays the same over its retries (after a minute, an hour and six hours). Linear
waits five seconds for a 200.
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
    rfc3339,
    stream,
    text,
    type_words,
)
from holdfast.ingress.webhook.verifiers import signature
from holdfast.ingress.webhook.verifiers.scheme import Scheme


def normalize(payload: Json, headers: Mapping[str, str]) -> HookEvent:
    """`linear.issue.create`, `linear.comment.update`, …, one stream per issue, project, …"""
    body = object_of(payload, "Linear")
    kind = text(body, "type") or headers.get("linear-event") or "unknown"
    action, thing = text(body, "action"), dig(body, "data")
    object_id = text(thing, "id")
    return HookEvent(
        source="linear",
        type=event_type("linear", type_words(kind), type_words(action or "")),
        timestamp=rfc3339(dig(body, "createdAt")),
        properties=properties(
            event=kind,
            action=action,
            object_id=object_id,
            identifier=text(thing, "identifier") or text(thing, "issue", "identifier"),
            team=text(thing, "team", "key") or text(thing, "issue", "team", "key"),
            state=text(thing, "state", "name"),
            actor=text(body, "actor", "id"),
            actor_name=text(body, "actor", "name"),
            organization=text(body, "organizationId"),
            url=text(body, "url"),
            delivery=delivery_id(body, headers),
        ),
        payload=body,
        stream=stream("linear", text(thing, "issueId") or text(thing, "issue", "id") or object_id),
    )


def delivery_id(payload: Json, headers: Mapping[str, str]) -> str | None:
    return headers.get("linear-delivery")


_SCHEME = Scheme("linear-signature", timestamp_field="webhookTimestamp", timestamp_unit="ms")
PLATFORM = Platform("linear", normalize, signature("linear", _SCHEME), ("linear-event", "linear-delivery"), delivery_id)
