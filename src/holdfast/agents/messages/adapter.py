"""The adapter protocol: one way to bring a message into a session. tmux is one of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from holdfast.agents.messages.journal import DeliveryTrail, Journal
from holdfast.agents.messages.session_message import SessionMessage
from holdfast.domain.session import Session


@dataclass(frozen=True, slots=True)
class Sent:
    """The message was submitted; the agent's own confirmation is still missing. `confirms` is False for an agent
    that never confirms."""

    confirms: bool = True


@dataclass(frozen=True, slots=True)
class Accepted:
    """The receiver took the message and said so."""


@dataclass(frozen=True, slots=True)
class NotYet:
    """The message was not submitted. Trying again later is safe."""

    reason: str
    after_s: float | None = None


@dataclass(frozen=True, slots=True)
class Unknown:
    """The message may have been submitted. It must not be sent again; only evidence can tell."""

    reason: str


Result = Sent | Accepted | NotYet | Unknown


@dataclass(frozen=True, slots=True)
class Task:
    """A message, the session that shall get it, and what was done for it before."""

    message: SessionMessage
    session: Session
    trail: DeliveryTrail
    journal: Journal


class Adapter(Protocol):
    """One way to bring messages into sessions."""

    name: str
    literal: bool  # it cannot send commands: every text is a prompt

    async def fits(self, session: Session) -> bool:
        """Whether this adapter can reach the session."""

    async def send(self, task: Task) -> Result:
        """Bring the message into the session, or find out what became of an earlier try."""
