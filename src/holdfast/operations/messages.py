"""Verbs on messages for agent sessions: send one, and show what became of it."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.agents.messages.message_handler import COMMAND
from holdfast.agents.messages.resolve import AUTO, Place, Resolver
from holdfast.agents.messages.text import check_content, is_command
from holdfast.domain.errors import BadInput, DedupConflict, NotFound, TooMany
from holdfast.domain.event import check_name
from holdfast.domain.json_value import text_in
from holdfast.domain.message import (
    MESSAGE_TYPES,
    SOURCE,
    TEXT_FIELDS,
    URL_MAX,
    WAITING_MAX,
    Message,
    message_event,
    read_message,
)
from holdfast.domain.session import STREAM_PREFIX
from holdfast.domain.text import short_repr
from holdfast.ingress.accept import reject_unknown_keys
from holdfast.operations.answers.messages import MessageAnswer, QueuedMessage
from holdfast.operations.context import OperationsContext
from holdfast.operations.message_status import MessageStatuses

DEFAULT_TEXTS = {"voice": "A voice message:", "file": "A file:"}
FIELDS = (
    "session", "content", "message_type", "origin", *TEXT_FIELDS, "actor_avatar_url", "payload", "command",
)  # fmt: skip
FOLLOWED_MAX = 10


class MessageVerbs:
    def __init__(self, context: OperationsContext) -> None:
        self._store = context.store
        self._resolver, self._statuses = Resolver(context.store.sessions), MessageStatuses(context.store)

    async def send(self, body: object, actor: str = "api") -> QueuedMessage:
        """Queue a message for a session. It is durable when this returns; the agent gets it when it can take it.

        Nothing is stored if the session is unknown, closed or ambiguous, or if too many messages wait for it.
        """
        wanted, message = read_body(body, actor)
        await self._check_file(message)
        session = await self._resolver.resolve(wanted, Place(message.origin, message.source_channel_id))
        if (known := await self._known(message)) is not None:
            return known
        waiting = await self._store.operator.count_lane(session.stream)
        if waiting >= WAITING_MAX:
            raise TooMany(
                f"{waiting:,} messages wait for session {short_repr(session.id)}; the limit is {WAITING_MAX:,}"
            )
        (stored,) = await self._store.events.append([message_event(session.id, message)])
        return QueuedMessage(stored.id, stored.stream.removeprefix(STREAM_PREFIX), "queued", stored.duplicate)

    async def _check_file(self, message: Message) -> None:
        """A message of type voice or file names bytes that were stored before. Paths and URLs are never taken."""
        if message.message_type == "text":
            return
        given = message.payload if isinstance(message.payload, dict) else {}
        sha256 = text_in(given, "sha256")
        if sha256 is None or not await self._store.blobs.has(sha256):
            raise BadInput(
                f"a message of type {message.message_type} needs payload.sha256 of a stored file: send its bytes with "
                "PUT /api/blobs first"
            )

    async def show(self, id: str) -> MessageAnswer:
        """One message and its status."""
        event = await self._store.events.get(id)
        if event is None or not ((event.to or "").startswith(STREAM_PREFIX)):
            raise NotFound(f"there is no message {short_repr(id)}; it may have been pruned")
        return await self._statuses.show(event)

    async def _known(self, message: Message) -> QueuedMessage | None:
        """The answer to a message that was accepted before, also if it went to another session then."""
        id = None if message.dedup_key is None else await self._store.events.with_key(SOURCE, message.dedup_key)
        event = None if id is None else await self._store.events.get(id)
        if event is None:
            return None
        if read_message(event.payload).content != message.content:
            source_id = short_repr(message.source_message_id)
            raise DedupConflict(f"message {source_id} was accepted before with another content, as {event.id}")
        shown = await self._statuses.show(event)
        return QueuedMessage(event.id, shown.session or "", shown.status, True)


def read_body(body: object, actor: str) -> tuple[str, Message]:
    """The session that a message names, and the message. Every error names the field."""
    if not isinstance(body, Mapping):
        raise BadInput(f"a message is a JSON object with session and content, not {short_repr(body)}")
    reject_unknown_keys(body, FIELDS, "a message")
    wanted, message_type = body.get("session"), body.get("message_type") or "text"
    if not isinstance(wanted, str) or not wanted:
        raise BadInput(f"session is missing: give its id, its name, a bound chat such as telegram:42, or {AUTO}")
    if message_type not in MESSAGE_TYPES:
        raise BadInput(f"message_type is one of {', '.join(MESSAGE_TYPES)}, not {short_repr(message_type)}")
    command = body.get("command")
    if command is not None and not isinstance(command, bool):
        raise BadInput(f"command must be true or false, not {short_repr(command)}")
    content = check_content(body.get("content") or DEFAULT_TEXTS.get(str(message_type), body.get("content")))
    if is_command(content) and not command:
        raise BadInput(f"the content is not sent: {COMMAND}")
    return check_name(wanted, "session"), Message(
        content,
        message_type=message_type,
        origin=_text(body, "origin") or "api",
        source_message_id=_text(body, "source_message_id"),
        source_channel_id=_text(body, "source_channel_id"),
        actor_id=_text(body, "actor_id"),
        actor_name=_text(body, "actor_name"),
        actor_avatar_url=_text(body, "actor_avatar_url", URL_MAX),
        payload=body.get("payload"),
        command=command is True,
        sent_by=actor,
    )


def _text(body: Mapping[str, object], name: str, limit: int | None = None) -> str | None:
    value = body.get(name)
    if value is None:
        return None
    if limit is not None and isinstance(value, str) and 0 < len(value) <= limit and value.isprintable():
        return value
    return check_name(value, name)
