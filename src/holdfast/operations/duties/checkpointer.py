"""Moves SQLite's write-ahead log into the database file."""

from __future__ import annotations

from holdfast.store.base import Care

BUSY_S = 0.5
RECENT_COMMITS_S = 2.0
IDLE_S = 10.0


class Checkpointer:
    """Runs often while there are commits and rarely while there are none."""

    name = "checkpoint"

    def __init__(self, care: Care) -> None:
        self._care = care
        self._commits = -1

    async def tick(self) -> float | None:
        before, self._commits = self._commits, self._care.commits()
        if await self._care.checkpoint():
            return BUSY_S
        return RECENT_COMMITS_S if before != self._commits else IDLE_S
