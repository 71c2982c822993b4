"""Maintenance: retention, copies, checks, and signs of change."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

from holdfast.store.roles.owners import Actor

PRUNED = ("deliveries", "events", "dedup_keys", "inbox", "lanes", "sessions", "streams", "blobs")
_DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class Retention:
    """How long things are kept, in milliseconds. Receipts are kept forever.

    `cursors_ms`: how long a cursor behind its stream may stand still before retention ignores it. `archive`: events of
    streams are removed only after they were written to an archive.
    """

    delivered_ms: int
    inbound_ms: int
    dead_ms: int
    dedup_ms: int
    sessions_ms: int = 90 * _DAY_MS
    streams_ms: int = 365 * _DAY_MS
    cursors_ms: int = 30 * _DAY_MS
    archive: bool = False

    @property
    def streams_kept_ms(self) -> int:
        """A stream is kept at least as long as dedup keys: a repeated key returns its event's place in the stream."""
        return max(self.streams_ms, self.dedup_ms)


class StoreSizes(NamedTuple):
    """Sizes in bytes; None where this process cannot know them. `disk_free`: free space beside the store's file."""

    store: int | None
    write_ahead_log: int | None = None
    disk_free: int | None = None


class Replication(NamedTuple):
    """How a database server copies itself. The names are those that the standbys gave themselves.

    `wanted`: commits wait for a synchronous standby, whether one is connected or not. `hidden`: standbys whose use the
    database role may not see.
    """

    wanted: bool
    synchronous: list[str]
    asynchronous: list[str]
    hidden: int = 0


class Maintenance(Protocol):
    """Retention, copies, checks, and signs of change."""

    async def prune(self, retention: Retention, limit: int, by: Actor) -> dict[str, int]:
        """Remove rows past their retention, at most `limit` of each kind. Returns the number for each of `PRUNED`.

        Receipts list the ids of the removed deliveries.
        """

    async def backup(self, path: Path) -> None:
        """Copy the store to a file while it is in use. Raises BadInput where the store does not do that itself."""

    async def checkpoint(self) -> bool:
        """Move the write-ahead log into the file, where there is one. True: it was long, so check again soon."""

    async def check(self) -> list[str]:
        """Faults that weaken the promise, as sentences for an operator; empty: none were found."""

    async def replication(self) -> Replication | None:
        """The standbys of the database server; None where the store is no server."""

    async def about(self) -> str:
        """The database and its version."""

    def changed_elsewhere(self) -> bool:
        """Whether another process committed since the last call."""

    def watched_files(self) -> list[Path]:
        """Files in one folder that a commit of another process changes; none where the store notifies by itself."""

    def commits(self) -> int:
        """How many commits this process made. Only whether it changed has a meaning."""

    async def sizes(self) -> StoreSizes:
        """How large the store is."""

    def refusal(self) -> str | None:
        """Why new events are refused now; None: they are accepted."""

    def notes(self) -> list[str]:
        """Remarks for an operator about how this store is reached; usually none."""
