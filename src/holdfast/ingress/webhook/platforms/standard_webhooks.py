"""Standard Webhooks (standardwebhooks.com): any sender that follows it. Events carry the source's name."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.domain.inbound_event import HookEvent
from holdfast.domain.json_value import Json
from holdfast.ingress.webhook.platforms.platform import ID_HEADERS, Platform, standard_id
from holdfast.ingress.webhook.platforms.reading import dig, event_type, object_of, properties, rfc3339, text
from holdfast.ingress.webhook.verifiers import VERIFIERS


def normalize(name: str, payload: Json, headers: Mapping[str, str]) -> HookEvent:
    """`{type, timestamp, data}` becomes `<name>.<type>`."""
    body = object_of(payload, "Standard Webhooks")
    kind = text(body, "type")
    return HookEvent(
        source=name,
        type=event_type(name, kind or "received"),
        timestamp=rfc3339(dig(body, "timestamp")),
        properties=properties(event=kind, webhook_id=standard_id(body, headers)),
        payload=body,
    )


PLATFORM = Platform("standard", normalize, VERIFIERS["standard"], ID_HEADERS, takes_source_name=True)
