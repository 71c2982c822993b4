"""A message that an application sends in its own transaction: an event, whose session is found when it is delivered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypedDict

from holdfast.agents.messages.text import check_content, is_command
from holdfast.domain.errors import BadInput
from holdfast.domain.event import NewEvent, new_event
from holdfast.domain.json_value import Json
from holdfast.domain.message import QUEUED, SOURCE, read_message
from holdfast.domain.session import STREAM_PREFIX
from holdfast.ingress.accept import reject_unknown_keys

_NAMES = {"channel": "source_channel_id", "message_id": "source_message_id"}


class MessageFields(TypedDict, total=False):
    """The optional fields of a message. The same origin, channel and `message_id` is accepted once.

    `command`: the agent CLI may read the text as a command.
    """

    origin: str
    channel: str | None
    message_id: str | None
    actor_id: str | None
    actor_name: str | None
    payload: Json
    command: bool


def queued_message(session: str, text: str, fields: Mapping[str, object]) -> NewEvent:
    """
    >>> queued_message("backend", "please rebase", {"message_id": "42"}).to
    'session:backend'
    """
    reject_unknown_keys(fields, tuple(MessageFields.__annotations__), "a message")
    given = {_NAMES.get(name, name): value for name, value in fields.items() if value is not None}
    message = read_message({"origin": "app", **given, "content": check_content(text)})  # type: ignore[dict-item]
    if is_command(message.content) and not message.command:
        raise BadInput("the text begins like a command of an agent CLI: pass command=True, or put a word in front")
    key = None if message.dedup_key is None else f"send {message.dedup_key}"
    return new_event(QUEUED, message.as_payload(), source=SOURCE, dedup_key=key, to=f"{STREAM_PREFIX}{session}")
