"""Removes rows that are past their retention."""

from __future__ import annotations

from holdfast.store.roles.maintenance import Maintenance, Retention
from holdfast.store.roles.owners import Owner

PRUNE_MAX = 20_000
FIRST_PRUNE_S = 60.0


class Pruner:
    name = "retention"

    def __init__(self, maintenance: Maintenance, retention: Retention, every_s: float, owner: Owner) -> None:
        self._maintenance, self._retention, self._every_s = maintenance, retention, every_s
        self._by = owner.acting("retention")
        self._first = True

    async def tick(self) -> float | None:
        """Prune at most `PRUNE_MAX` rows of each kind, and come back after a second if there were that many.

        The first call does nothing, so that pruning does not slow down the start.
        """
        if self._first:
            self._first = False
            return min(FIRST_PRUNE_S, self._every_s)
        counts = await self._maintenance.prune(self._retention, PRUNE_MAX, self._by)
        return 1.0 if max(counts.values()) >= PRUNE_MAX else self._every_s
