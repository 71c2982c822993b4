"""Verbs on streams: list, show, read events in order."""

from __future__ import annotations

from holdfast.domain.errors import Conflict, NotFound, PositionPruned
from holdfast.domain.event import iso_time
from holdfast.domain.text import short_repr
from holdfast.operations.answers.events import EventAnswer, event_answer
from holdfast.operations.answers.fields import extend
from holdfast.operations.answers.page import LIMIT_DEFAULT, Page, check_limit
from holdfast.operations.answers.readers import cursor_answer
from holdfast.operations.answers.streams import StreamAnswer, StreamDetail, stream_answer
from holdfast.operations.context import OperationsContext
from holdfast.store.roles.page import PAGE_MAX


class StreamVerbs:
    def __init__(self, context: OperationsContext) -> None:
        store = context.store
        self._events, self._cursors, self._archives = store.events, store.cursors, store.archives

    async def find(self, *, after: str | None = None, limit: int = LIMIT_DEFAULT) -> Page[StreamAnswer]:
        """Streams by name. An event without a stream of its own is not listed."""
        page = await self._events.streams(after, check_limit(limit))
        return Page([stream_answer(row) for row in page.items], page.next)

    async def show(self, id: str) -> StreamDetail:
        """One stream with its readers. An event without a stream is a stream of one event, under the event's id."""
        stream = await self._get(id)
        first = await self._events.first_seq(id) if await self._events.stream(id) is not None else 1
        cursors = [cursor_answer(state, stream.head) for state in await self._cursors.of_stream(id, PAGE_MAX)]
        return extend(StreamDetail, stream, first_seq=first, cursors=cursors)

    async def _get(self, id: str) -> StreamAnswer:
        row = await self._events.stream(id)
        if row is not None:
            return stream_answer(row)
        event = await self._events.get(id)
        if event is None or event.stream != id:
            raise NotFound(f"there is no stream {short_repr(id)}")
        return StreamAnswer(id, head=1, created_at=iso_time(event.accepted_at_ms), closed_at=None)

    async def events(self, id: str, *, after: int | None = None, limit: int = LIMIT_DEFAULT) -> Page[EventAnswer]:
        """Events of a stream with a `seq` greater than `after`, in order; without it, from the first stored one."""
        head = (await self._get(id)).head
        if after is not None and after > head:
            raise Conflict(
                f"after={after} is beyond the head of stream {short_repr(id)}, which is {head}: the stream was "
                "removed by retention and began again; read it from after=0"
            )
        events = await self._events.read(id, after or 0, check_limit(limit))
        if after is not None and (not events or events[0].seq > after + 1):
            await self._check_stored(id, after, head)
        more = str(events[-1].seq) if events and events[-1].seq < head else None
        return Page([event_answer(event) for event in events], more)

    async def _check_stored(self, id: str, after: int, head: int) -> None:
        """Raise PositionPruned if retention removed events after this position."""
        first = await self._events.first_seq(id)
        first_seq = head + 1 if first is None else first
        if after + 1 < first_seq:
            archived = bool(await self._archives.holding(id, after, 1))
            raise PositionPruned.at(id, after, first_seq, archived)
