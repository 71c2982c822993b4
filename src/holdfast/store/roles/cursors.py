"""Cursors: how far each reader has read each stream."""

from __future__ import annotations

from typing import Protocol

from holdfast.domain.cursor import Cursor


class Cursors(Protocol):
    """Positions of readers. Retention keeps every event that a reader has not passed."""

    async def ensure(self, reader: str, stream: str) -> Cursor:
        """The cursor of a reader; created before the first event if there is none."""

    async def get(self, reader: str, stream: str) -> Cursor | None:
        """The cursor of a reader, if it has one."""

    async def advance(self, reader: str, stream: str, position: int) -> Cursor:
        """Move a cursor forward. Raises Conflict for a move backward, NotFound if it was never created."""
