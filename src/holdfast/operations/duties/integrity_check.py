"""Checks the whole database file once after an unclean stop."""

from __future__ import annotations

from holdfast.domain.errors import StoreFailed
from holdfast.store.roles.maintenance import Maintenance

START_AFTER_S = 2.0


class IntegrityCheck:
    """Runs in the background while deliveries continue.

    It starts `START_AFTER_S` late, so that deliveries left from before the crash go out first: reading a large file
    keeps the disk busy.
    """

    name = "check"

    def __init__(self, maintenance: Maintenance) -> None:
        self._maintenance = maintenance
        self._first, self._done = True, False

    async def tick(self) -> float | None:
        if self._first:
            self._first = False
            return START_AFTER_S
        if not self._done:
            faults = await self._maintenance.check()
            if faults:
                raise StoreFailed(f"the store is damaged: {faults[0]}; restore a backup with: holdfast db restore")
            self._done = True
        return None
