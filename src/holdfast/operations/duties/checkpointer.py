"""Moves SQLite's write-ahead log into the database file."""

from __future__ import annotations

from holdfast.store.roles.maintenance import Maintenance

BUSY_S = 0.5
RECENT_COMMITS_S = 2.0
IDLE_S = 10.0


class Checkpointer:
    """Runs often while there are commits and rarely while there are none."""

    name = "checkpoint"

    def __init__(self, maintenance: Maintenance) -> None:
        self._maintenance = maintenance
        self._commits = -1

    async def tick(self) -> float | None:
        before, self._commits = self._commits, self._maintenance.commits()
        if await self._maintenance.checkpoint():
            return BUSY_S
        return RECENT_COMMITS_S if before != self._commits else IDLE_S
