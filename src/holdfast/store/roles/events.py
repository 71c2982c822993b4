"""Events: the append-only list of facts, by stream and by id."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from holdfast.domain.event import Appended, Event, NewEvent
from holdfast.store.roles.page import Page


@dataclass(frozen=True, slots=True)
class EventFilter:
    """Every given field must match. `unmatched`: only events that no contract wanted."""

    source: str | None = None
    type: str | None = None
    stream: str | None = None
    unmatched: bool = False


class StreamRow(NamedTuple):
    """A stream; `head` is the `seq` of its newest event."""

    id: str
    head: int
    created_at_ms: int
    closed_at_ms: int | None


class Events(Protocol):
    """The append-only list of facts."""

    async def append(self, events: Sequence[NewEvent]) -> list[Appended]:
        """Append all events durably in one transaction, or none. A repeated dedup key returns the first event."""

    async def get(self, id: str) -> Event | None:
        """One event by its id, with its payload."""

    async def find(self, wanted: EventFilter, after: str | None, limit: int) -> Page[Event]:
        """Events, newest first: at most `limit`, and no more once `PAGE_BYTES_MAX` is reached."""

    async def streams(self, after: str | None, limit: int) -> Page[StreamRow]:
        """Streams by id, after this one."""

    async def stream(self, id: str) -> StreamRow | None:
        """One stream by its id."""

    async def read(self, stream: str, after_seq: int, limit: int) -> list[Event]:
        """Events of a stream in `seq` order: at most `limit`, and no more once `PAGE_BYTES_MAX` is reached."""

    async def reroute(self, ids: Sequence[str]) -> int:
        """Send events to the router again. Returns how many there were; existing deliveries are not repeated."""
