"""Message: a text for an agent session. It is one event, whose id is the message's id.

An accepted message is an event `message.queued` on the stream of its session, addressed to that session. Later events
on the same stream record its progress: `message.sent` (typed into the agent), `message.accepted` (the agent confirmed
it), `message.failed` and `message.expired`. These go to the session's lane too, which keeps the last message on the
session's row.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, fields

from holdfast.domain.errors import BadInput
from holdfast.domain.event import Event, NewEvent, new_event
from holdfast.domain.json_value import Json, JsonObject, KnownJson, without_none
from holdfast.domain.lane import MESSAGES, SESSIONS
from holdfast.domain.session import STREAM_PREFIX
from holdfast.domain.text import clip_text, short_repr

SOURCE = "message"
QUEUED, SENT, ACCEPTED, FAILED, EXPIRED = (
    f"{SOURCE}.{word}" for word in ("queued", "sent", "accepted", "failed", "expired")
)
MESSAGE_TYPES = ("text", "voice", "file")
WAITING_MAX = 1000
"""How many messages may wait for one session."""
HOPS_MAX = 3
"""How often a message may be derived from the output of an agent that answered a message."""
REASON_MAX = 500
TEXT_FIELDS = ("source_message_id", "source_channel_id", "actor_id", "actor_name")
URL_MAX = 2048

IDENTITY = ("actor_id", "actor_login", "author_association", "channel_id")
"""Properties of an event that say who sent it. The lists of senders in contracts trust them."""

SYSTEM_SOURCE = "system"
_TRUSTED_SOURCES = (SOURCE, "agent", "hook")
_IDENTITY = tuple(f'"{name}":'.encode() for name in IDENTITY)
_PROPERTIES = ("message_type", "origin", *TEXT_FIELDS, "actor_avatar_url")
_ABOUT = ("origin", "source_channel_id", "source_message_id")


@dataclass(frozen=True, slots=True)
class Message:
    """What is sent to a session, and where it came from.

    `origin` is the kind of sender, such as `cli` or a chat, whose ids `source_message_id` and
    `source_channel_id` are. `hops`: how many agents' answers it was derived from. `command`: the agent CLI may read it
    as a command. `framed`: it begins with a line that names its sender. `sent_by`: the token it came with.
    """

    content: str
    message_type: str = "text"
    origin: str = "api"
    source_message_id: str | None = None
    source_channel_id: str | None = None
    actor_id: str | None = None
    actor_name: str | None = None
    actor_avatar_url: str | None = None
    payload: Json = None
    hops: int = 0
    command: bool = False
    framed: bool = False
    sent_by: str | None = None

    def as_payload(self) -> JsonObject:
        """The payload of its event: every field that has a value."""
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in given.items() if value not in (None, False, 0) or name == "content"}

    @property
    def dedup_key(self) -> str | None:
        """The same message of the same channel has the same key."""
        if self.source_message_id is None:
            return None
        return message_key(self.origin, self.source_channel_id or "", self.source_message_id)


def message_key(*parts: str) -> str:
    return "msg:" + hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def message_event(session_id: str, message: Message, *, id: str | None = None, key: str | None = None) -> NewEvent:
    """The event `message.queued`."""
    payload = message.as_payload()
    return new_event(
        QUEUED,
        payload,
        source=SOURCE,
        stream=STREAM_PREFIX + session_id,
        properties={"session_id": session_id, **{name: payload[name] for name in _PROPERTIES if name in payload}},
        dedup_key=key or message.dedup_key,
        to=STREAM_PREFIX + session_id,
    )._replace(id=id)


def is_message(event: Event) -> bool:
    """Whether this is a message for the session of its stream, as `message_event` makes it."""
    return (event.source, event.type) == (SOURCE, QUEUED) and event.to == event.stream


def needs_message_scope(event: NewEvent) -> bool:
    """Whether appending this event may put text into an agent's session: directly, or because contracts trust it.

    >>> needs_message_scope(new_event("order.placed")), needs_message_scope(new_event("x", to="session:backend"))
    (False, True)
    """
    to = event.to or ""
    if to.startswith(STREAM_PREFIX) or to in (SESSIONS, MESSAGES) or event.source in _TRUSTED_SOURCES:
        return True
    if event.source == SYSTEM_SOURCE and (event.stream or "").startswith(STREAM_PREFIX):
        return True  # what Holdfast itself states about a session
    return event.properties != b"{}" and any(name in event.properties for name in _IDENTITY)


def read_message(payload: Json) -> Message:
    """The message in the payload of `message.queued`. Fields of a later version are left out.

    >>> read_message({"content": "please rebase", "origin": "cli"}).origin
    'cli'
    """
    if not isinstance(payload, Mapping) or not isinstance(payload.get("content"), str):
        raise BadInput(f"a message is an object with a content, not {short_repr(payload)}")
    known = {field.name for field in fields(Message)}
    given: dict[str, KnownJson] = {  # checked below
        name: value for name, value in payload.items() if name in known and value is not None
    }
    for name in (*TEXT_FIELDS, "origin", "message_type", "actor_avatar_url", "sent_by"):
        if not isinstance(given.get(name, ""), str):
            raise BadInput(f"{name} of a message is text, not {short_repr(given[name])}")
    if given.get("message_type", "text") not in MESSAGE_TYPES:
        raise BadInput(f"message_type is one of {', '.join(MESSAGE_TYPES)}, not {short_repr(given['message_type'])}")
    hops = given.get("hops", 0)
    given["hops"] = hops if isinstance(hops, int) and not isinstance(hops, bool) and hops >= 0 else 0
    given["command"], given["framed"] = given.get("command") is True, given.get("framed") is True
    return Message(**given)


def message_status_event(type: str, message: Event, reason: str | None = None, generation: int = 1) -> NewEvent:
    """What became of a message: `message.sent`, `.accepted`, `.failed` or `.expired`.

    It goes to the session's lane, and contracts can subscribe to it. Appending it again in the same `generation` of the
    delivery is harmless.
    """
    given = message.payload if isinstance(message.payload, Mapping) else {}
    about: JsonObject = {name: given.get(name) for name in _ABOUT}
    session_id = message.stream.removeprefix(STREAM_PREFIX)
    return new_event(
        type,
        without_none(
            {"message_id": message.id, **about, "hops": given.get("hops"), "reason": clip_text(reason, REASON_MAX)}
        ),
        source=SOURCE,
        stream=message.stream,
        properties=without_none({"session_id": session_id, "message_id": message.id, **about}),
        dedup_key=message_key(type, message.id, str(generation), reason or ""),
        to=SESSIONS,
    )
