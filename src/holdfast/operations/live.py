"""Verbs of live views: follow one stream, or all events."""

from __future__ import annotations

from holdfast.domain.errors import BadInput, HoldfastError
from holdfast.domain.text import short_repr
from holdfast.operations.answers.page import is_number
from holdfast.operations.context import OperationsContext
from holdfast.streams.feed import FeedFilter
from holdfast.streams.live import LiveViews, View


class LiveVerbs:
    """Each verb checks its position, then returns a view that yields events as they come."""

    def __init__(self, context: OperationsContext) -> None:
        self._context = context

    async def tail(
        self, id: str, *, after: int | None = None, wait: bool = False, last_event_id: str | None = None
    ) -> View:
        """The events of a stream after a position (default: all stored ones), then those to come, in order."""
        return await self._live.tail(id, _position(last_event_id, after), wait)

    async def feed(
        self,
        *,
        after: int | None = None,
        source: str | None = None,
        type: str | None = None,
        stream: str | None = None,
        last_event_id: str | None = None,
    ) -> View:
        """All events from now on, or after a position, in the order in which they become visible."""
        return await self._live.all_events(_position(last_event_id, after), FeedFilter(source, type, stream))

    @property
    def _live(self) -> LiveViews:
        if self._context.live is None:
            raise HoldfastError("this process offers no live views; start a daemon with: holdfast up")
        return self._context.live


def _position(last_event_id: str | None, after: int | None) -> int | None:
    """The position of a client that resumes: the last id it received, or where it began."""
    if not last_event_id:
        return after
    if not is_number(last_event_id):
        raise BadInput(f"Last-Event-ID {short_repr(last_event_id)} is not a position; send the last id you received")
    return int(last_event_id)
