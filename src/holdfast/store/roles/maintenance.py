"""Maintenance: retention, copies, checks, and signs of change."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

PRUNED = ("deliveries", "events", "dedup_keys", "inbox", "lanes", "sessions", "streams")
_DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class Retention:
    """How long things are kept, in milliseconds. Receipts are kept forever."""

    delivered_ms: int
    inbound_ms: int
    dead_ms: int
    dedup_ms: int
    sessions_ms: int = 90 * _DAY_MS
    streams_ms: int = 365 * _DAY_MS

    @property
    def streams_kept_ms(self) -> int:
        """A stream is kept at least as long as dedup keys: a repeated key returns its event's place in the stream."""
        return max(self.streams_ms, self.dedup_ms)


class Maintenance(Protocol):
    """Retention, copies, checks, and signs of change."""

    async def prune(self, retention: Retention, limit: int) -> dict[str, int]:
        """Remove rows past their retention, at most `limit` of each kind. Returns the number for each of `PRUNED`."""

    async def backup(self, path: Path) -> None:
        """Copy the store to a file while it is in use. Raises BadInput where the store does not do that itself."""

    async def checkpoint(self) -> bool:
        """Move the write-ahead log into the file, where there is one. True: it was long, so check again soon."""

    async def check(self) -> list[str]:
        """Faults that weaken the promise, as sentences for an operator; empty: none were found."""

    async def about(self) -> str:
        """The database and its version."""

    def changed_elsewhere(self) -> bool:
        """Whether another process committed since the last call."""

    def watched_files(self) -> list[Path]:
        """Files in one folder that a commit of another process changes; none where the store notifies by itself."""

    def commits(self) -> int:
        """How many commits this process made. Only whether it changed has a meaning."""

    def refusal(self) -> str | None:
        """Why new events are refused now; None: they are accepted."""

    def notes(self) -> list[str]:
        """Remarks for an operator about how this store is reached; usually none."""
