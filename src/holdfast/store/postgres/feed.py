"""The feed on PostgreSQL. Events may become visible out of the order of their numbers, when transactions overlap."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.domain.event import Event
from holdfast.store.postgres.pool import Pool
from holdfast.store.postgres.statements import sql
from holdfast.store.roles.events import StreamRow
from holdfast.store.roles.feed import FeedPage, FeedPosition
from holdfast.store.roles.page import PAGE_BYTES_MAX
from holdfast.store.rows import event_bytes

SEEN_MAX = 10_000
"""How many numbers above `low` are remembered. An event that commits after so many later ones is not in the feed."""
START_BACK = 1000
"""How many numbers before the newest are remembered at the start."""


class PostgresFeed:
    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def heads(self, streams: Sequence[str]) -> dict[str, StreamRow]:
        rows = await self._pool.rows(sql.stream_heads, list(streams))
        return {row[0]: StreamRow(*row) for row in rows}

    async def newest(self) -> FeedPosition:
        numbers = [row[0] for row in await self._pool.rows(sql.feed_newest, START_BACK)]
        low = max(0, numbers[0] - START_BACK) if numbers else 0
        return FeedPosition(low, frozenset(number for number in numbers if number > low))

    async def visible(self, position: FeedPosition, limit: int) -> FeedPage:
        ended, begun = (await self._pool.rows(sql.feed_snapshot))[0]
        rows = await self._pool.rows(sql.feed_read, position.low, sorted(position.seen), limit, PAGE_BYTES_MAX)
        seen = position.seen | {row[0] for row in rows}
        moved = position._replace(seen=seen)
        if len(rows) < limit and sum(map(event_bytes, rows)) < PAGE_BYTES_MAX:
            # Nothing that was visible at the snapshot is unread, so `low` may move.
            moved = _settle(moved, ended, begun)
        if len(moved.seen) > SEEN_MAX:
            low = sorted(moved.seen)[len(moved.seen) // 2]
            moved = FeedPosition(low, frozenset(number for number in moved.seen if number > low))
        return FeedPage([Event(*row) for row in rows], moved)


def _settle(position: FeedPosition, ended: int, begun: int) -> FeedPosition:
    """Move `low` to the mark once every transaction that began before it has ended, or set a new mark.

    The mark gets its transaction one read after its number: a transaction takes the number of an event a moment before
    it has a number itself.
    """
    _, seen, mark, transaction = position
    if transaction and ended >= transaction:
        return FeedPosition(mark, frozenset(number for number in seen if number > mark))
    if mark and not transaction:
        return position._replace(mark_transaction=begun)
    if not mark and seen:
        return position._replace(mark=max(seen))
    return position
