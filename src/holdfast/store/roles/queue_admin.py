"""QueueAdmin: which ready queue is in force, how long it is, how it is moved and repaired."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple, Protocol

from holdfast.store.roles.owners import Actor


class QueueKind(StrEnum):
    """What holds the deliveries that can be claimed: a table of the store, or a queue of pgmq."""

    NATIVE = "native"
    PGMQ = "pgmq"


class QueueMove(NamedTuple):
    """A move of the queue: from which kind to which, and how many rows. Equal kinds: nothing had to be done."""

    before: QueueKind
    after: QueueKind
    rows: int


class QueueLoad(NamedTuple):
    """How many deliveries can be claimed or are leased, and how many dead row versions wait for vacuum."""

    depth: int
    dead_rows: int


class QueueRepair(NamedTuple):
    """What one step of the repair did: rows added, rows removed, and the position after it; 0: all was looked at."""

    added: int
    removed: int
    position: int


class QueueAdmin(Protocol):
    """The ready queue as a whole. The verbs on single deliveries are those of `ReadyQueue`."""

    async def kind(self) -> QueueKind:
        """Which queue is in force."""

    async def move(self, to: QueueKind, by: Actor) -> QueueMove:
        """Move all rows to another kind of queue, leases included, while processes work. Writes a receipt."""

    async def load(self) -> QueueLoad:
        """How much work the queue makes."""

    async def repair(self, position: int, limit: int) -> QueueRepair:
        """Compare at most `limit` deliveries after a position with the queue, and repair differences.

        The rows of deliveries are the truth. Only a queue that other programs can reach may differ from them.
        """
