"""How much waits for one contract or direct address: the same for every store."""

from __future__ import annotations

from typing import NamedTuple

from holdfast.store.roles.ready_queue import QueueDepth

LANES_MAX = 20_000


class LaneCounts(NamedTuple):
    """The lanes of one queue in which something waits, what waits in them, and how many of them are not paused."""

    lanes: int
    waiting: int
    unpaused: int


def pending_of(depth: QueueDepth, lanes: LaneCounts) -> int | None:
    """How many deliveries of a queue are pending; None if it has too many lanes to count.

    The head of each lane that is not paused stands in the ready queue too, unless it was handed over.
    """
    if lanes.lanes >= LANES_MAX:
        return None
    return depth.rows - min(depth.rows, lanes.unpaused) + lanes.waiting
