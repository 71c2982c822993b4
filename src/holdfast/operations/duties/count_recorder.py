"""Records what this process did, once a minute, for the charts of the web page."""

from __future__ import annotations

from typing import NamedTuple

from holdfast.operations.history import HOUR_MS, MINUTE_MS
from holdfast.operations.process_counts import ProcessCounts
from holdfast.ports import Clock
from holdfast.store.roles.history import Minute
from holdfast.store.roles.store import Store

EVERY_S = 60.0
CONTRACTS_AT_ONCE = 200


class Totals(NamedTuple):
    """Counts since the process began."""

    accepted: int
    delivered: int
    dead: int
    dropped: int


class CountRecorder:
    name = "history"

    def __init__(self, store: Store, counts: ProcessCounts, clock: Clock) -> None:
        self._store, self._counts, self._clock = store, counts, clock
        self._before = _totals(counts)

    async def tick(self) -> float | None:
        """Write the difference to the last tick. An idle process without a backlog writes nothing."""
        after = _totals(self._counts)
        figures = await self._store.operator.figures()
        if after != self._before or figures.pending:
            now_ms = self._clock.now_ms()
            oldest_ms = figures.oldest_pending_ms
            oldest_s = 0 if oldest_ms is None else max(0, now_ms - oldest_ms) // 1000
            accepted, delivered, dead, dropped = (new - old for new, old in zip(after, self._before, strict=True))
            minute = (now_ms - 1) // MINUTE_MS
            counts = Minute(minute, accepted, delivered, dead, dropped, figures.pending, oldest_s)
            await self._store.history.add(counts)
        self._before = after
        await self._record_contracts()
        return EVERY_S

    async def _record_contracts(self) -> None:
        """Add what was done for each contract. If it cannot be written, it is lost: the next minute is to be true."""
        hour = self._clock.now_ms() // HOUR_MS
        counts = [one.in_hour(contract, hour) for contract, one in self._counts.take_unrecorded().items()]
        for first in range(0, len(counts), CONTRACTS_AT_ONCE):
            await self._store.history.add_contracts(counts[first : first + CONTRACTS_AT_ONCE])


def _totals(counts: ProcessCounts) -> Totals:
    ended = counts.deliveries_ended
    states = ("delivered", "dead", "dropped")
    return Totals(
        counts.events_routed, *[sum(count for key, count in ended.items() if key.state == state) for state in states]
    )
