"""A driver of the store for simulated disks: apsw, but without waiting for a disk that is not simulated anyway."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast.store.sqlite.connection import ApswConnection
from holdfast.store.sqlite.store import DRIVERS

DRIVER = "sim"


class SimConnection(ApswConnection):
    """A killed process loses no commit that the operating system has: only a power cut would need the fsync."""

    def run(self, sql: str, params: Sequence[Any] = ()) -> int:
        if sql.startswith("PRAGMA synchronous"):
            sql = "PRAGMA synchronous = OFF"
        return super().run(sql, params)

    @property
    def changes(self) -> int:
        """How many rows this connection has changed since it was opened."""
        return int(self._raw.total_changes())


DRIVERS[DRIVER] = SimConnection
