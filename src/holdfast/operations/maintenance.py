"""Background duties on the store: retention, checkpoints, and a check of the file after a crash."""

from __future__ import annotations

from holdfast.domain.errors import StoreFailed
from holdfast.store.base import Care, Retention

PRUNE_MAX = 20_000
CHECK_AFTER_S = 2.0
CHECKPOINT_BUSY_S = 0.5
CHECKPOINT_S = 2.0
CHECKPOINT_IDLE_S = 10.0


class Pruning:
    name = "retention"

    def __init__(self, care: Care, retention: Retention, every_s: float) -> None:
        self._care, self._retention, self._every_s = care, retention, every_s
        self._first = True

    async def tick(self) -> float | None:
        """Prune a bounded number; soon again if there was that much. The first look waits until start-up is over."""
        if self._first:
            self._first = False
            return min(60.0, self._every_s)
        counts = await self._care.prune(self._retention, PRUNE_MAX)
        return 1.0 if max(counts.values()) >= PRUNE_MAX else self._every_s


class Checkpointing:
    """Moves the write-ahead log into the file, often while there are commits and seldom while there are none."""

    name = "checkpoint"

    def __init__(self, care: Care) -> None:
        self._care = care
        self._commits = -1

    async def tick(self) -> float | None:
        before, self._commits = self._commits, self._care.commits()
        if await self._care.checkpoint():
            return CHECKPOINT_BUSY_S
        return CHECKPOINT_S if before != self._commits else CHECKPOINT_IDLE_S


class Checking:
    """After an unclean stop: a look at the whole file in the background, while deliveries go on.

    It begins when what waited from before has had its turn: a large file keeps the disk busy.
    """

    name = "check"

    def __init__(self, care: Care) -> None:
        self._care = care
        self._first, self._done = True, False

    async def tick(self) -> float | None:
        if self._first:
            self._first = False
            return CHECK_AFTER_S
        if not self._done:
            faults = await self._care.check()
            if faults:
                raise StoreFailed(f"the store is damaged: {faults[0]}; restore a backup with: holdfast db restore")
            self._done = True
        return None
