"""Finds the message that a prompt came from: one that is being delivered, or one of the last that were sent."""

from __future__ import annotations

from holdfast.agents.messages.text import contains_message
from holdfast.domain.errors import BadInput
from holdfast.domain.event import Event
from holdfast.domain.json_value import text_in
from holdfast.domain.message import QUEUED, SOURCE, Message, read_message
from holdfast.domain.session import STREAM_PREFIX, Session
from holdfast.store.roles.events import EventFilter
from holdfast.store.roles.store import Store

RECENT = 100
"""How many of the session's last events are searched. The message at the head of its lane is always looked at."""


class PromptedMessages:
    def __init__(self, store: Store) -> None:
        self._store = store

    async def read(self, id: str) -> Message | None:
        """A message by its id."""
        event = await self._store.events.get(id)
        return None if event is None else _message(event)

    async def find(self, session: Session, prompt: str) -> tuple[str, Message] | None:
        """The message that the prompt contains; None: a person wrote the prompt."""
        continues = text_in(session.facts, "continues")
        streams = [session.stream, *([] if continues is None else [STREAM_PREFIX + continues])]
        heads = [event_id for lane in streams for _, event_id in await self._store.operator.first_in_lane(lane, 1)]
        for event in [await self._store.events.get(id) for id in heads]:
            if event is not None and (found := _fitting(event, prompt)) is not None:
                return event.id, found
        page = await self._store.events.find(EventFilter(stream=session.stream), None, RECENT)
        for event in page.items:
            if (found := _fitting(event, prompt)) is not None:
                return event.id, found
        return None


def _fitting(event: Event, prompt: str) -> Message | None:
    if (event.source, event.type) != (SOURCE, QUEUED):
        return None
    message = _message(event)
    return message if message is not None and contains_message(prompt, message.content) else None


def _message(event: Event) -> Message | None:
    try:
        return read_message(event.payload)
    except BadInput:
        return None
