"""Readers: which streams each reader has not read to their end, leased to one process at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from holdfast.domain.reader import Reader
from holdfast.store.roles.owners import Actor

SURVEY_MAX = 500
ERROR_MAX = 500


class NewEvents(NamedTuple):
    """Events of a stream that a reader may not have read: `first_seq` to `head`, the first of them accepted then."""

    reader: str
    stream: str
    first_seq: int
    head: int
    since_ms: int


class StreamLease(NamedTuple):
    """A lagging stream that one process works on. `failures`: attempts in a row that failed."""

    reader: str
    stream: str
    position: int
    head: int
    since_ms: int
    failures: int
    alarmed: bool
    token: int


class Progress(NamedTuple):
    """How far a leased stream was read. Unless that is its head, it is due again after `delay_ms`.

    `error`: why the attempt failed. `alarmed`: an operator was notified of that.
    """

    lease: StreamLease
    position: int
    since_ms: int
    delay_ms: int = 0
    error: str | None = None
    alarmed: bool = False


class ReaderState(NamedTuple):
    """A reader as an operator sees it.

    `streams`: how many it has not read to their end, with `events` unread ones in all, the oldest accepted at
    `oldest_ms`. `failing`: how many of the streams failed last time; `error` is one of their errors.
    `expired`: how many cursors did not move for so long that retention ignores them.
    """

    name: str
    pattern: str
    start: str
    active: bool
    seen_at_ms: int
    streams: int
    events: int
    failing: int
    error: str | None
    expired: int
    oldest_ms: int | None = None


class Readers(Protocol):
    """Readers of many streams. Each of them has a cursor in each stream."""

    async def register(self, readers: Sequence[Reader], *, only: str | None = None) -> None:
        """Store readers. The router knows them before it routes another event.

        A new reader that starts at the beginning has to `survey` the streams that exist already. `only`: readers whose
        names begin with this text and that are not given end.
        """

    async def all(self) -> list[Reader]:
        """The active readers by name."""

    async def survey(self, name: str) -> bool:
        """Find stored streams of a new reader, `SURVEY_MAX` at a time. True: there are more."""

    async def mark(self, new_events: Sequence[NewEvents]) -> None:
        """Record that streams have new events, and create missing cursors. Harmless when repeated."""

    async def claim(self, name: str, limit: int, lease_ms: int, owner: int | None = None) -> list[StreamLease]:
        """Lease lagging streams that are due, the longest waiting first."""

    async def settle(self, results: Sequence[Progress]) -> set[tuple[str, str]]:
        """Advance cursors and end leases. Returns the (reader, stream) pairs whose lease was still valid.

        A stream that was read to its head leaves the list; any other is due again after its `delay_ms`.
        """

    async def extend(self, leases: Sequence[StreamLease], lease_ms: int) -> None:
        """Let leases that are still valid end later."""

    async def reclaim(self, owner: int | None = None) -> int:
        """End leases that have expired or whose owner is dead. `owner` is this process."""

    async def next_due(self, names: Sequence[str]) -> int | None:
        """Milliseconds until the next stream of these readers is due, 0 if one is; None: none of them lags."""

    async def states(self) -> list[ReaderState]:
        """All readers, with their lag."""

    async def expire(self, before_ms: int) -> list[str]:
        """End readers that no process worked for since then. Returns their names."""

    async def record_replay(self, stream: str, first_seq: int, last_seq: int, target: str, by: Actor) -> None:
        """Write a receipt: an operator sent these events again."""
