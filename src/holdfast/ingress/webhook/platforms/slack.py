"""Slack: the Events API sends JSON, buttons and dialogues a form with JSON in it, slash commands a plain form."""

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
    sent_by,
    stream,
    text,
    unix_time,
    unwrap_form,
)
from holdfast.ingress.webhook.verifiers import signature
from holdfast.ingress.webhook.verifiers.scheme import Scheme


def normalize(payload: Json, headers: Mapping[str, str]) -> HookEvent:
    """`slack.event.message`, `slack.interactive.block_actions`, `slack.command.deploy`, one stream per channel."""
    body = object_of(unwrap_form(payload), "Slack")
    if "command" in body:
        return _command(body)
    if isinstance(body.get("event"), Mapping):
        return _event(body)
    kind = text(body, "type") or "unknown"
    if kind in ("url_verification", "app_rate_limited") or body is payload:
        return HookEvent("slack", event_type("slack", kind), payload=_without_token(body))
    return _interactive(body)


def delivery_id(payload: Json, headers: Mapping[str, str]) -> str | None:
    body = unwrap_form(payload)
    return text(body, "event_id") or text(body, "trigger_id")


def answer(payload: Json) -> Json:
    """The challenge in return; an empty response to a form, since Slack would show any text to the user."""
    if dig(payload, "type") == "url_verification":
        return {"challenge": text(payload, "challenge") or ""}
    is_form = "command" in payload or "payload" in payload if isinstance(payload, Mapping) else False
    return None if is_form else {"status": "accepted"}


def _event(body: JsonObject) -> HookEvent:
    event = body["event"]
    channel = text(event, "channel") or text(event, "channel", "id") or text(event, "item", "channel")
    team = text(body, "team_id")
    return HookEvent(
        source="slack",
        type=event_type("slack", "event", text(event, "type") or "unknown", text(event, "subtype")),
        timestamp=unix_time(dig(body, "event_time")),
        properties=properties(
            event=text(event, "type"),
            subtype=text(event, "subtype"),
            team=team,
            channel=channel,
            user=text(event, "user") or text(event, "user", "id"),
            text=text(event, "text"),
            ts=text(event, "ts"),
            thread_ts=text(event, "thread_ts"),
            bot_id=text(event, "bot_id"),
            app=text(body, "api_app_id"),
            event_id=text(body, "event_id"),
            **_sender(event, channel),
        ),
        payload=_without_token(body),
        stream=stream("slack", team, channel or text(event, "user")),
    )


def _sender(event: Json, channel: str | None) -> dict[str, Json]:
    """Who wrote a message. A message of a bot has the bot as its sender; edits and deletions are not new texts."""
    kind = text(event, "type")
    if kind not in ("message", "app_mention"):
        return {}
    actor = text(event, "user") or text(event, "bot_id")
    return sent_by(
        actor,
        name=text(event, "username") or actor,
        channel=channel,
        message=text(event, "ts"),
        thread=text(event, "thread_ts") or text(event, "ts"),
        headline=f"Slack: {actor} wrote in {channel}",
        text_path="event.text",
        edited=text(event, "subtype") in ("message_changed", "message_deleted"),
    )


def _interactive(body: JsonObject) -> HookEvent:
    team, channel, user = (text(body, name, "id") for name in ("team", "channel", "user"))
    return HookEvent(
        source="slack",
        type=event_type("slack", "interactive", text(body, "type") or "unknown"),
        properties=properties(
            team=team,
            channel=channel,
            user=user,
            action=text(body, "actions", 0, "action_id") or text(body, "actions", 0, "name"),
            value=text(body, "actions", 0, "value"),
            callback_id=text(body, "callback_id") or text(body, "view", "callback_id"),
        ),
        payload=_without_token(body),
        stream=stream("slack", team, channel or user),
    )


def _command(body: JsonObject) -> HookEvent:
    command, team, channel = text(body, "command"), text(body, "team_id"), text(body, "channel_id")
    return HookEvent(
        source="slack",
        type=event_type("slack", "command", (command or "unknown").lstrip("/")),
        properties=properties(
            command=command,
            text=text(body, "text"),
            team=team,
            channel=channel,
            user=text(body, "user_id"),
            **sent_by(
                text(body, "user_id"),
                name=text(body, "user_name"),
                channel=channel,
                message=text(body, "trigger_id"),
                headline=f"Slack: {text(body, 'user_name')} sent {command}",
                text_path="text",
            ),
        ),
        payload=_without_token(body),
        stream=stream("slack", team, channel),
    )


def _without_token(body: JsonObject) -> dict[str, Json]:
    """The payload without the old verification token: a shared secret, which must not be passed on."""
    return {name: value for name, value in body.items() if name != "token"}


_SCHEME = Scheme(
    "x-slack-signature", "v0:{timestamp}:{body}", prefix="v0=", timestamp_header="x-slack-request-timestamp"
)
PLATFORM = Platform("slack", normalize, signature("slack", _SCHEME), delivery_id=delivery_id, answer=answer)
