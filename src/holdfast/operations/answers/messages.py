"""Answers about messages for agent sessions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from holdfast.operations.answers.fields import Format, HexDigest, Time

STATUSES = ("queued", "sent", "accepted", "unconfirmed", "dead", "expired", "cancelled")
MessageStatus = Annotated[str, Format(enum=STATUSES)]


@dataclass(frozen=True, slots=True)
class StoredBlob:
    """A file that messages can name by its digest."""

    sha256: HexDigest
    size: int


@dataclass(frozen=True, slots=True)
class QueuedMessage:
    """A message that was accepted. `duplicate`: the same message of its channel was accepted before."""

    id: str
    session: str
    status: MessageStatus
    duplicate: bool


@dataclass(frozen=True, slots=True)
class MessageAnswer:
    """One message. `sent`: it was typed into the agent; `accepted`: the agent confirmed it.

    `session` is null while the session is still being looked for. `reason`: why it ended otherwise.
    """

    id: str
    session: str | None
    status: MessageStatus
    attempts: int
    last_error: str | None
    reason: str | None
    origin: str
    message_type: str
    content: str
    accepted_at: Time
    ended_at: Time | None
