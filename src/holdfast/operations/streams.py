"""Verbs on streams: list, show, read events in order."""

from __future__ import annotations

from typing import Any

from holdfast.domain.errors import Conflict, NotFound
from holdfast.domain.text import short_repr
from holdfast.operations.answers import LIMIT_DEFAULT, check_limit, event_shape, stream_shape
from holdfast.operations.context import OperationsContext


class StreamVerbs:
    def __init__(self, context: OperationsContext) -> None:
        self._events = context.store.events

    async def find(self, *, after: str | None = None, limit: int = LIMIT_DEFAULT) -> dict[str, Any]:
        page = await self._events.streams(after, check_limit(limit))
        return {"items": [stream_shape(row) for row in page.items], "next": page.next}

    async def show(self, id: str) -> dict[str, Any]:
        row = await self._events.stream(id)
        if row is not None:
            return stream_shape(row)
        single = await self._events.get(id)
        if single is None or single.stream != id:
            raise NotFound(f"there is no stream {short_repr(id)}")
        accepted = event_shape(single)["accepted_at"]
        return {"id": id, "head": 1, "created_at": accepted, "closed_at": None}

    async def events(self, id: str, *, after: int = 0, limit: int = LIMIT_DEFAULT) -> dict[str, Any]:
        """In `seq` order, after a given one."""
        head = (await self.show(id))["head"]
        if after > head:
            raise Conflict(
                f"after={after} is beyond the head of stream {short_repr(id)}, which is {head}: the stream was "
                "removed by retention and began again; read it from after=0"
            )
        events = await self._events.read(id, after, check_limit(limit))
        more = str(events[-1].seq) if events and events[-1].seq < head else None
        return {"items": [event_shape(event) for event in events], "next": more}
