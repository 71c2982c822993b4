"""Discord: interactions (which expect a response of a certain kind) and webhook events.

The `token` of an interaction stays in the payload: a handler needs it to respond, within 15 minutes.
"""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.domain.inbound_event import HookEvent
from holdfast.domain.json_value import Json, JsonObject
from holdfast.ingress.webhook.platforms.platform import Platform
from holdfast.ingress.webhook.platforms.reading import (
    dig,
    event_type,
    object_of,
    properties,
    rfc3339,
    sent_by,
    stream,
    text,
)
from holdfast.ingress.webhook.verifiers import signature
from holdfast.ingress.webhook.verifiers.scheme import ED25519, Scheme

INTERACTIONS = {1: "ping", 2: "command", 3: "component", 4: "autocomplete", 5: "modal"}
PONG, LATER, LATER_IN_PLACE, NO_CHOICES = 1, 5, 6, 8


def normalize(payload: Json, headers: Mapping[str, str]) -> HookEvent:
    """`discord.interaction.command`, `discord.event.application_authorized`, `discord.ping`, …"""
    body = object_of(payload, "Discord")
    if isinstance(body.get("event"), Mapping):
        return _event(body)
    kind = body.get("type")
    name = INTERACTIONS.get(kind, f"type_{kind}") if isinstance(kind, int) else "unknown"
    if name == "ping" or _is_event_ping(body):
        return HookEvent("discord", "discord.ping", payload=body)
    return _interaction(body, name)


def delivery_id(payload: Json, headers: Mapping[str, str]) -> str | None:
    return text(payload, "id")


def answer(payload: Json) -> Json:
    """The response until a handler responds: PONG to a PING, "thinking" to an interaction, empty to a webhook event."""
    if isinstance(dig(payload, "event"), Mapping) or _is_event_ping(payload):
        return None
    kind = dig(payload, "type")
    if kind == 1:
        return {"type": PONG}
    if kind == 3:
        return {"type": LATER_IN_PLACE}
    if kind == 4:
        return {"type": NO_CHOICES, "data": {"choices": []}}
    return {"type": LATER}


def _interaction(body: JsonObject, name: str) -> HookEvent:
    guild = text(body, "guild_id")
    channel = text(body, "channel_id") or text(body, "channel", "id")
    user = text(body, "member", "user", "id") or text(body, "user", "id")
    return HookEvent(
        source="discord",
        type=event_type("discord", "interaction", name),
        properties=properties(
            interaction_id=text(body, "id"),
            application=text(body, "application_id"),
            guild=guild,
            channel=channel,
            user=user,
            username=text(body, "member", "user", "username") or text(body, "user", "username"),
            command=text(body, "data", "name"),
            custom_id=text(body, "data", "custom_id"),
            **sent_by(user, name=text(body, "member", "user", "username"), channel=channel),
        ),
        payload=body,
        stream=stream("discord", channel or user),
    )


def _event(body: JsonObject) -> HookEvent:
    name = (text(body, "event", "type") or "unknown").lower()
    user = text(body, "event", "data", "user", "id")
    return HookEvent(
        source="discord",
        type=event_type("discord", "event", name),
        timestamp=rfc3339(dig(body, "event", "timestamp")),
        properties=properties(event=name, application=text(body, "application_id"), user=user),
        payload=body,
        stream=stream("discord", text(body, "application_id")),
    )


def _is_event_ping(payload: Json) -> bool:
    return dig(payload, "type") == 0 and dig(payload, "data") is None


_SCHEME = Scheme(
    "x-signature-ed25519", "{timestamp}{body}", algorithm=ED25519, timestamp_header="x-signature-timestamp"
)
PLATFORM = Platform(
    "discord", normalize, signature("discord", _SCHEME), delivery_id=delivery_id, answer=answer, empty_status=204
)
