"""Counts over time: read for charts, and recorded once a minute by a duty."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.domain.errors import BadInput
from holdfast.domain.event import iso_time
from holdfast.operations.answers.history import CountHistory, HistoryPoint
from holdfast.operations.context import OperationsContext
from holdfast.store.roles.history import Minute

MINUTE_MS, HOUR_MS = 60_000, 3_600_000
SPANS = {"hour": (60, 1), "day": (24 * 60, 15)}
"""How many minutes a span covers, and how many minutes each of its points."""


class HistoryVerbs:
    def __init__(self, context: OperationsContext) -> None:
        self._store, self._clock = context.store, context.clock

    async def show(self, span: str = "hour") -> CountHistory:
        """Counts of the last hour by minute, or of the last day by quarter of an hour."""
        if span not in SPANS:
            raise BadInput(f"span must be {' or '.join(SPANS)}, not {span[:20]!r}")
        minutes, size = SPANS[span]
        last = self._clock.now_ms() // MINUTE_MS
        first = (last - minutes) // size * size
        stored = await self._store.history.since(first)
        items = [_point(start, stored, size) for start in range(first, last + 1, size)]
        return CountHistory(size * 60, items)


def _point(start: int, stored: Sequence[Minute], size: int) -> HistoryPoint:
    some = [minute for minute in stored if start <= minute.minute < start + size]
    return HistoryPoint(
        at=iso_time(start * MINUTE_MS),
        accepted=sum(minute.accepted for minute in some),
        delivered=sum(minute.delivered for minute in some),
        dead=sum(minute.dead for minute in some),
        dropped=sum(minute.dropped for minute in some),
        pending=max((minute.pending for minute in some), default=0),
        oldest_pending_seconds=max((minute.oldest_pending_s for minute in some), default=0),
    )
