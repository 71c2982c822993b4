"""WhatsApp Cloud API: one request may hold many messages and many statuses, each of which is an event."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping

from holdfast.domain.inbound_event import HookEvent
from holdfast.domain.json_value import Json
from holdfast.ingress.webhook.platforms.platform import Platform
from holdfast.ingress.webhook.platforms.reading import (
    dig,
    event_type,
    items,
    object_of,
    properties,
    sent_by,
    stream,
    text,
    unix_time,
)
from holdfast.ingress.webhook.verifiers import VERIFIERS

MEDIA = ("image", "document", "video", "audio", "voice", "sticker")


def normalize(payload: Json, headers: Mapping[str, str]) -> list[HookEvent]:
    """`whatsapp.message.text`, `whatsapp.status.delivered`, …; other changes are `whatsapp.<field>`."""
    body = object_of(payload, "WhatsApp")
    found: list[HookEvent] = []
    for change in _changes(body):
        value = dig(change, "value")
        messages = [_message(message, value) for message in items(value, "messages")]
        statuses = [_status(status, value) for status in items(value, "statuses")]
        found.extend(messages + statuses or [_other(change)])
    return found or [HookEvent("whatsapp", "whatsapp.unknown", payload=body)]


def delivery_id(payload: Json, headers: Mapping[str, str]) -> str | None:
    """The ids of everything in the request. A batch that is sent again has the same ones."""
    ids = []
    for change in _changes(payload):
        ids += [text(message, "id") or "" for message in items(change, "value", "messages")]
        ids += [f"{text(one, 'id')}/{text(one, 'status')}" for one in items(change, "value", "statuses")]
    if not ids or "" in ids:
        return None
    return ids[0] if len(ids) == 1 else "batch:" + hashlib.sha256("\n".join(ids).encode("utf-8", "replace")).hexdigest()


def _changes(body: Json) -> Iterator[Json]:
    for entry in items(body, "entry"):
        yield from items(entry, "changes")


def _message(message: Json, value: Json) -> HookEvent:
    kind = _kind(message)
    raw_kind = text(message, "type") or "unknown"
    sender = _digits(text(message, "from"))
    media = dig(message, raw_kind) if raw_kind in MEDIA else None
    return HookEvent(
        source="whatsapp",
        type=event_type("whatsapp", "message", kind),
        timestamp=unix_time(dig(message, "timestamp")),
        properties=properties(
            phone_number=sender,
            **sent_by(sender, channel=sender, message=text(message, "id"), headline=f"WhatsApp: {sender} wrote"),
            text=_text_of(message, raw_kind),
            media_id=text(media, "id"),
            mime_type=text(media, "mime_type"),
            phone_number_id=text(value, "metadata", "phone_number_id"),
            reply_to=text(message, "context", "id"),
        ),
        payload=message,
        stream=stream("whatsapp", sender),
        dedup_key=text(message, "id"),
    )


def _status(status: Json, value: Json) -> HookEvent:
    state = text(status, "status") or "unknown"
    recipient = _digits(text(status, "recipient_id"))
    return HookEvent(
        source="whatsapp",
        type=event_type("whatsapp", "status", state),
        timestamp=unix_time(dig(status, "timestamp")),
        properties=properties(
            phone_number=recipient,
            message_id=text(status, "id"),
            status=state,
            error_code=text(status, "errors", 0, "code"),
            phone_number_id=text(value, "metadata", "phone_number_id"),
        ),
        payload=status,
        stream=stream("whatsapp", recipient),
        dedup_key=f"{text(status, 'id')}/{state}",
    )


def _other(change: Json) -> HookEvent:
    field = text(change, "field") or "unknown"
    return HookEvent(
        "whatsapp",
        event_type("whatsapp", field),
        properties=properties(
            field=field, phone_number_id=text(change, "value", "metadata", "phone_number_id")
        ),
        payload=change,
    )  # fmt: skip


def _kind(message: Json) -> str:
    """The message's type; a voice message is `voice`, in both forms that WhatsApp uses."""
    kind = text(message, "type") or "unknown"
    if kind == "audio" and (dig(message, "audio", "voice") is True or "ogg" in (_mime(message) or "")):
        return "voice"
    return kind


def _mime(message: Json) -> str | None:
    return text(message, "audio", "mime_type")


def _text_of(message: Json, kind: str) -> str | None:
    """The text, the pressed button or the caption."""
    paths: tuple[tuple[str, ...], ...] = (
        ("text", "body"),
        (kind, "caption"),
        ("button", "text"),
        ("interactive", "button_reply", "title"),
        ("interactive", "list_reply", "title"),
        ("reaction", "emoji"),
    )
    return next((found for path in paths if (found := text(message, *path))), None)


def _digits(number: str | None) -> str | None:
    return "".join(char for char in number if char in "0123456789") or None if number else None


PLATFORM = Platform("whatsapp", normalize, VERIFIERS["hub"], delivery_id=delivery_id)
