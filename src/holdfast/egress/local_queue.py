"""The claims of one queue that this process holds, and how many more of it the engine claims."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field

from holdfast.egress.held_claim import HeldClaim

WINDOW_MAX = 1000
STALE_MS = 500


@dataclass(slots=True)
class LocalQueue:
    """Claims of one queue that wait for a worker, and the workers that carry them out.

    `window` is how many claims of the queue this process holds at most, those not settled yet included. It adapts: a
    queue that is drained quickly gets more claims at a time, so that fast handlers see large batches and slow ones
    hold little.
    """

    window: int
    concurrency: int
    waiting: deque[HeldClaim] = field(default_factory=deque)
    held_count: int = 0
    workers: set[asyncio.Task[None]] = field(default_factory=set)

    @property
    def is_in_use(self) -> bool:
        return bool(self.held_count or self.workers)

    def adapt_window(self, drained_quickly: bool, now_ms: int) -> None:
        """Double the window if it was used up quickly and workers are idle; halve it if claims wait too long.

        `drained_quickly`: an attempt of this queue ended within `STALE_MS` of its claim. A slow queue, or one that
        never filled its window, gains nothing from a larger one.
        """
        if drained_quickly and self.held_count >= self.window and self._has_idle_workers:
            self.window = min(self.window * 2, WINDOW_MAX)
        elif self.waiting and now_ms - self.waiting[0].claimed_at_ms > STALE_MS:
            self.window = max(1, self.window // 2)

    def free_places(self, ended_count: int) -> int:
        """How many more claims fit into the window, with `ended_count` attempts counted as settled."""
        return max(0, self.window - self.held_count + ended_count)

    @property
    def _has_idle_workers(self) -> bool:
        return not self.waiting and len(self.workers) < self.concurrency
