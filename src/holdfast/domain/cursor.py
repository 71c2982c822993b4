"""Cursor: the position of one reader in one stream. It only moves forward, and stops at the first failure."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.domain.errors import Conflict


@dataclass(frozen=True, slots=True)
class Cursor:
    reader: str
    stream: str
    position: int = 0
    updated_at_ms: int = 0

    @property
    def next_seq(self) -> int:
        return self.position + 1

    def advanced(self, position: int, now_ms: int) -> Cursor:
        if position < self.position:
            raise Conflict(
                f"reader {self.reader!r} is at {self.position} in {self.stream!r}; it cannot move back to {position}"
            )
        return Cursor(self.reader, self.stream, position, now_ms)
