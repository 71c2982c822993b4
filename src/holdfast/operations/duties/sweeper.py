"""Frees leases of dead processes, and ends deliveries that can no longer be made."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from holdfast.domain.states import Reason, State
from holdfast.ports import NO_COUNTERS, Clock, Counters
from holdfast.store.roles.deliveries import Deliveries
from holdfast.store.roles.owners import Owner

POLL_S = 1.0
ALONE_POLL_S = 5.0
GRACE_MS = 3600 * 1000
SERVE_EVERY_MS = 60 * 1000
STEP_MS = 5 * 1000


class Sweeper:
    name = "sweeper"

    def __init__(
        self,
        deliveries: Deliveries,
        owner: Owner,
        served: Callable[[], frozenset[str]],
        clock: Clock,
        holding: Callable[[], Sequence[int]] = tuple,
        counters: Counters = NO_COUNTERS,
    ) -> None:
        self._deliveries, self._owner, self._served, self._clock = deliveries, owner, served, clock
        self._holding, self._counters = holding, counters
        self._since_ms = clock.now_ms()
        self._offset_ms = clock.now_ms() - clock.boot_ms()
        self._served_ms = -SERVE_EVERY_MS
        self.reclaimed = 0

    async def tick(self) -> float | None:
        """Each step works on the rows there are now, so an interrupted sweep can start over."""
        if reclaimed := await self._deliveries.reclaim(self._holding()):
            self.reclaimed += reclaimed
            self._counters.leases(reclaimed=reclaimed)
        await self._deliveries.resume_handed()
        while dropped := await self._deliveries.drop_removed(self._owner):
            self._counters.ended(State.DROPPED, Reason.CONTRACT_REMOVED, dropped)
        self._check_clock()
        now_ms = self._clock.boot_ms()
        if now_ms - self._served_ms >= SERVE_EVERY_MS:
            await self._deliveries.record_served(sorted(self._served()))
            while dead := await self._deliveries.dead_letter_unserved(self._owner, GRACE_MS, self._since_ms):
                self._counters.ended(State.DEAD, Reason.NO_HANDLER, dead)
            self._served_ms = now_ms
        return POLL_S if await self._deliveries.others_hold_leases(self._owner) else ALONE_POLL_S

    def _check_clock(self) -> None:
        """Restart the grace time after the wall clock was set: it no longer shows how long a delivery waited."""
        offset_ms = self._clock.now_ms() - self._clock.boot_ms()
        if abs(offset_ms - self._offset_ms) > STEP_MS:
            self._since_ms = self._clock.now_ms()
        self._offset_ms = offset_ms
