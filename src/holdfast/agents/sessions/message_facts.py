"""What a session's row keeps about messages: the last one that was sent, and the one that the agent answers now."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.domain.event import Event
from holdfast.domain.json_value import Json, JsonObject
from holdfast.domain.message import ACCEPTED, SENT, Message
from holdfast.domain.text import clip_text

ANSWERING = "answering"
TEXT_MAX = 4000


def about_message(id: str, message: Message) -> JsonObject:
    """What an answer needs to know about its message. Each key has a value: stored facts are merged key by key."""
    given = message.payload if isinstance(message.payload, dict) else {}
    return {
        "id": id,
        "origin": message.origin,
        "channel": message.source_channel_id or "",
        "source_message_id": message.source_message_id or "",
        "thread": str(given.get("thread") or ""),
        "hops": message.hops,
    }


def answered_message(facts: Mapping[str, Json]) -> JsonObject | None:
    """The message that the agent answers, as its events show it; None if a person wrote the prompt."""
    about = facts.get(ANSWERING)
    if not isinstance(about, dict) or not about.get("id"):
        return None
    return {name: value for name, value in about.items() if value != ""}


def message_properties(message: Mapping[str, Json] | None) -> JsonObject:
    """Properties of an event of the agent, by which a contract can send the answer to where the message came from."""
    if message is None:
        return {}
    names = {"message_id": "id", "message_origin": "origin", "message_channel": "channel"}
    return {name: message[key] for name, key in names.items() if key in message}


def facts_of_signal(event: Event, id: str, message: Message) -> JsonObject:
    """The facts that follow from `message.sent` and `message.accepted`."""
    if event.type not in (SENT, ACCEPTED):
        return {}
    return {
        "last_message": clip_text(message.content, TEXT_MAX),
        "last_message_origin": message.origin,
        "last_message_at": event.timestamp,
        "last_message_id": id,
    }
