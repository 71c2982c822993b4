"""Events: the append-only list of facts, by stream and by id."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from holdfast.domain.event import Appended, Event, NewEvent
from holdfast.store.roles.owners import Actor
from holdfast.store.roles.page import Page


@dataclass(frozen=True, slots=True)
class EventFilter:
    """Every given field must match. `unmatched`: only events that no contract matched.

    `words`: each must be in the id, source, type, stream or properties; `name=value` is a property. In lower case.
    """

    source: str | None = None
    type: str | None = None
    stream: str | None = None
    unmatched: bool = False
    words: tuple[str, ...] = ()


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

    async def with_key(self, source: str, key: str) -> str | None:
        """The id of the event that was appended with this dedup key, also if the event itself was pruned."""

    async def with_prefix(self, prefix: str) -> list[str]:
        """The ids that begin with this text: at most two, which is enough to know whether it is unique."""

    async def find(self, wanted: EventFilter, after: str | None, limit: int) -> Page[Event]:
        """Events, newest first: at most `limit`, and no more once `PAGE_BYTES_MAX` is reached."""

    async def streams(self, after: str | None, limit: int) -> Page[StreamRow]:
        """Streams by id, after this one."""

    async def stream(self, id: str) -> StreamRow | None:
        """One stream by its id."""

    async def read(self, stream: str, after_seq: int, limit: int) -> list[Event]:
        """Events of a stream in `seq` order: at most `limit`, and no more once `PAGE_BYTES_MAX` is reached."""

    async def read_many(self, places: Sequence[tuple[str, int]], limit: int, bytes_max: int) -> list[list[Event]]:
        """Events of several streams, each after a `seq`: at most `limit` of each, and no more once it has that size."""

    async def first_seq(self, stream: str) -> int | None:
        """The `seq` of the first stored event of a stream; None if none is stored."""

    async def reroute(self, ids: Sequence[str], *, by: Actor | None = None) -> int:
        """Send events to the router again. Returns how many there were; existing deliveries are not repeated."""
