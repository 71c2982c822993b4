"""The answer of `metrics`: everything that `/metrics` shows."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.operations.answers.readers import ReaderAnswer
from holdfast.operations.process_counts import ProcessCounts
from holdfast.store.roles.maintenance import StoreSizes
from holdfast.store.roles.operator import StoreFigures


@dataclass(frozen=True, slots=True)
class Metrics:
    """Figures of the store, and counters of this process. What cannot be known is None, never 0.

    `pending_by_queue`: the queues with the most pending deliveries; None: there are too many to count them.
    `dead_by_queue`: the queues with the most dead letters.
    """

    version: str
    figures: StoreFigures
    sizes: StoreSizes
    counts: ProcessCounts
    pending_by_queue: dict[str, int] | None
    dead_by_queue: dict[str, int]
    duties: dict[str, bool]
    accepting: bool
    oldest_pending_seconds: float | None
    spooled: int
    paused: int
    breakers_open: int
    misconfigured: int
    readers: list[ReaderAnswer]
