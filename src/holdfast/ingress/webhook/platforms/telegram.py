"""Telegram: an update has a number and exactly one other key, the kind of update."""

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
    sent_by,
    stream,
    text,
    unix_time,
)
from holdfast.ingress.webhook.verifiers.check import Verifier
from holdfast.ingress.webhook.verifiers.scheme import Scheme
from holdfast.ingress.webhook.verifiers.token import token

CONTENT = (
    "text", "photo", "voice", "audio", "video", "video_note", "document", "animation", "sticker", "location",
    "contact", "poll", "dice", "new_chat_members", "left_chat_member", "successful_payment",
)  # fmt: skip


def normalize(payload: Json, headers: Mapping[str, str]) -> HookEvent:
    """`telegram.message.text`, `telegram.callback_query`, …, one stream per chat."""
    body = object_of(payload, "Telegram")
    kind = next((name for name in body if name != "update_id"), "unknown")
    update = body.get(kind)
    message = update if dig(update, "message_id") is not None else dig(update, "message")
    content = next((name for name in CONTENT if dig(message, name) is not None), None)
    chat = text(message, "chat", "id") or text(update, "chat", "id")
    user = text(update, "from", "id") or text(update, "user", "id")
    written = text(message, "text") or text(message, "caption")
    return HookEvent(
        source="telegram",
        type=event_type("telegram", kind, content if message is update else None),
        timestamp=unix_time(dig(update, "date")),
        properties=properties(
            update_id=dig(body, "update_id"),
            chat=chat,
            chat_type=text(message, "chat", "type"),
            user=user,
            username=text(update, "from", "username"),
            text=written if message is update else None,
            command=_command(written) if message is update else None,
            data=text(update, "data"),
            **_sender(kind, update, message, chat, user),
        ),
        payload=body,
        stream=stream("telegram", chat or user),
    )


def _sender(kind: str, update: Json, message: Json, chat: str | None, user: str | None) -> dict[str, Json]:
    """Who wrote a message. An edited message is not a new text."""
    parts = (text(update, "from", "first_name"), text(update, "from", "last_name"))
    name = " ".join(part for part in parts if part) or text(update, "from", "username")
    key = "text" if text(message, "text") else "caption"
    return sent_by(
        user,
        name=name,
        channel=chat,
        message=text(message, "message_id"),
        headline=f"Telegram: {name or user} wrote" if user else None,
        text_path=f"{kind}.{key}" if message is update and text(message, key) else None,
        edited=kind.startswith("edited_"),
    )


def delivery_id(payload: Json, headers: Mapping[str, str]) -> str | None:
    return text(payload, "update_id")


def _command(written: str | None) -> str | None:
    """`/start` of `/start@some_bot now`."""
    if written is None or not written.startswith("/"):
        return None
    return written.split()[0].partition("@")[0]


_VERIFIER = Verifier("telegram", token, Scheme("x-telegram-bot-api-secret-token"))
PLATFORM = Platform("telegram", normalize, _VERIFIER, delivery_id=delivery_id)
