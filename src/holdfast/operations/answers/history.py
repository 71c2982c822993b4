"""The answer that the charts of the web page show."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.operations.answers.fields import Time


@dataclass(frozen=True, slots=True)
class HistoryPoint:
    """A span of time: how many events were accepted and deliveries ended, and the highest backlog in it."""

    at: Time
    accepted: int
    delivered: int
    dead: int
    dropped: int
    pending: int
    oldest_pending_seconds: int


@dataclass(frozen=True, slots=True)
class CountHistory:
    """Counts over time, oldest first, without gaps. Each point covers `seconds`."""

    seconds: int
    items: list[HistoryPoint]
