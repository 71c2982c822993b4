"""Cursors: how far each reader has read each stream."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from holdfast.domain.cursor import Cursor


class CursorState(NamedTuple):
    """A cursor as an operator sees it. `expired_at_ms`: it was idle for too long, and retention ignores it."""

    reader: str
    stream: str
    position: int
    updated_at_ms: int
    expired_at_ms: int | None
    failures: int
    error: str | None


class Cursors(Protocol):
    """Positions of readers. Retention keeps every event that a reader has not passed, unless its cursor expired."""

    async def ensure(self, reader: str, stream: str, position: int = 0) -> Cursor:
        """The cursor of a reader; created at `position` (0: before the first event) if there is none."""

    async def get(self, reader: str, stream: str) -> Cursor | None:
        """The cursor of a reader, if it has one."""

    async def advance(self, reader: str, stream: str, position: int) -> Cursor:
        """Move a cursor forward. Raises Conflict for a move backward, NotFound if it was never created."""

    async def of_stream(self, stream: str, limit: int) -> list[CursorState]:
        """The cursors in one stream, by reader."""

    async def expire(self, idle_since_ms: int, limit: int) -> list[Cursor]:
        """Expire cursors behind their stream's head that have not moved since then. Returns those that just expired."""
