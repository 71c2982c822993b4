"""Compares the ready queue with the deliveries, page by page, where other programs can reach the queue."""

from __future__ import annotations

import logging

from holdfast.store.roles.queue_admin import QueueAdmin

PAGE = 5000
STEP_S = 5.0
ROUND_S = 60.0
"""Pause after all deliveries were looked at. A queue that is a table of the store never differs."""

log = logging.getLogger("holdfast.queue")


class QueueRepair:
    name = "queue"

    def __init__(self, admin: QueueAdmin) -> None:
        self._admin = admin
        self._position = 0

    async def tick(self) -> float | None:
        repair = await self._admin.repair(self._position, PAGE)
        if repair.added or repair.removed:
            log.warning(
                "the queue was changed by another program: %d deliveries were missing in it, %d had ended already",
                repair.added,
                repair.removed,
            )
        self._position = repair.position
        return STEP_S if repair.position else ROUND_S
