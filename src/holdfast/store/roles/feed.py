"""Feed: what live views read. The heads of some streams, and all events in the order in which they become visible."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from holdfast.domain.event import Event
from holdfast.store.roles.events import StreamRow


class FeedPosition(NamedTuple):
    """How far a reader of all events has come.

    No event up to the number `low` can become visible any more. `seen` are the numbers above `low` that were read: a
    transaction that is still open may commit a smaller number later. `mark` is the next `low`, once every transaction
    older than `mark_transaction` has ended.
    """

    low: int
    seen: frozenset[int] = frozenset()
    mark: int = 0
    mark_transaction: int = 0


class FeedPage(NamedTuple):
    """Events that became visible since a position, and the position after them."""

    events: list[Event]
    position: FeedPosition


class Feed(Protocol):
    """Reads for live views."""

    async def heads(self, streams: Sequence[str]) -> dict[str, StreamRow]:
        """Those of these streams that exist, in one read whatever their number."""

    async def newest(self) -> FeedPosition:
        """The position at which everything that is visible now has been read."""

    async def visible(self, position: FeedPosition, limit: int) -> FeedPage:
        """Events that are not read yet: at most `limit`, and no more once `PAGE_BYTES_MAX` is reached."""
