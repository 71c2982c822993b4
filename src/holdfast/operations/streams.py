"""Verbs on streams: list, show, read events in order."""

from __future__ import annotations

from holdfast.domain.errors import Conflict, NotFound
from holdfast.domain.event import iso_time
from holdfast.domain.text import short_repr
from holdfast.operations.answers.events import EventAnswer, event_answer
from holdfast.operations.answers.page import LIMIT_DEFAULT, Page, check_limit
from holdfast.operations.answers.streams import StreamAnswer, stream_answer
from holdfast.operations.context import OperationsContext


class StreamVerbs:
    def __init__(self, context: OperationsContext) -> None:
        self._events = context.store.events

    async def find(self, *, after: str | None = None, limit: int = LIMIT_DEFAULT) -> Page[StreamAnswer]:
        """Streams by name. An event without a stream of its own is not listed."""
        page = await self._events.streams(after, check_limit(limit))
        return Page([stream_answer(row) for row in page.items], page.next)

    async def show(self, id: str) -> StreamAnswer:
        """One stream. An event without a stream is a stream of one event, under the event's id."""
        row = await self._events.stream(id)
        if row is not None:
            return stream_answer(row)
        event = await self._events.get(id)
        if event is None or event.stream != id:
            raise NotFound(f"there is no stream {short_repr(id)}")
        return StreamAnswer(id, head=1, created_at=iso_time(event.accepted_at_ms), closed_at=None)

    async def events(self, id: str, *, after: int = 0, limit: int = LIMIT_DEFAULT) -> Page[EventAnswer]:
        """Events of a stream with a `seq` greater than `after`, in order."""
        head = (await self.show(id)).head
        if after > head:
            raise Conflict(
                f"after={after} is beyond the head of stream {short_repr(id)}, which is {head}: the stream was "
                "removed by retention and began again; read it from after=0"
            )
        events = await self._events.read(id, after, check_limit(limit))
        more = str(events[-1].seq) if events and events[-1].seq < head else None
        return Page([event_answer(event) for event in events], more)
