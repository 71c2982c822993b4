"""SessionMessage: a message on its way into an agent session, read from a delivery to a `session:` address."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.agents.messages.text import check_content, is_command, opens_completion
from holdfast.domain.delivery import Claim
from holdfast.domain.event import Event, NewEvent, iso_time, new_event
from holdfast.domain.json_value import Json
from holdfast.domain.message import SOURCE, message_status_event
from holdfast.domain.session import STREAM_PREFIX

LITERAL = "Message: "
"""Put before a text that an agent CLI would read as a command."""


@dataclass(frozen=True, slots=True)
class SessionMessage:
    """The text of one message, the delivery that brings it, and the session it was addressed to.

    `command`: the CLI shall read it as a command. No prompt hook comes for one.
    """

    session_id: str
    text: str
    delivery_id: int
    generation: int
    event: Event
    command: bool = False

    @property
    def stream(self) -> str:
        return STREAM_PREFIX + self.session_id

    @property
    def mark(self) -> str:
        """Identifies this life of the message in a pane: an operator may have it sent again."""
        return f"{self.delivery_id}.{self.generation}"

    @property
    def pasted_text(self) -> str:
        """The text as it is pasted. A blank at the end, which every CLI removes, closes a list of completions, and
        keeps a single digit from answering a question."""
        closes = opens_completion(self.text) or len(self.text) == 1
        return self.text + " " if closes else self.text

    def signal(self, type: str, at_ms: int, reason: str | None = None) -> NewEvent:
        """The event that says what became of the message, on the stream of its session."""
        return message_status_event(type, self.event, reason, self.generation)._replace(timestamp=iso_time(at_ms))

    def step(self, at_ms: int, **what: Json) -> NewEvent:
        """An entry of the journal, see `holdfast.agents.messages.journal`."""
        payload = {"message_id": self.event.id, **what}
        return new_event(f"{SOURCE}.delivering", payload, source=SOURCE, stream=self.stream, timestamp=iso_time(at_ms))


def read_session_message(claim: Claim) -> SessionMessage:
    """The message of a claim; `BadInput` if it has no text that could be sent.

    A text that a CLI would read as a command is made literal unless its sender asked for a command. Senders are refused
    such a text before; this is for events that were stored in another way.
    """
    event, delivery = claim.event, claim.delivery
    given = event.payload if isinstance(event.payload, dict) else {}
    text = check_content(given.get("content"))
    command = is_command(text) and given.get("command") is True
    if is_command(text) and not command:
        text = LITERAL + text
    session_id = delivery.address.removeprefix(STREAM_PREFIX)
    return SessionMessage(session_id, text, delivery.id, delivery.generation, event, command)
