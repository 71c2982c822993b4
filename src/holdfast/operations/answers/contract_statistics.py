"""The answer about what became of a contract's deliveries."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.operations.answers.fields import Time


@dataclass(frozen=True, slots=True)
class ContractCounts:
    """Deliveries that ended, and attempts that failed. `latency_seconds`: the mean time from accepted to delivered."""

    delivered: int
    dead: int
    dropped: int
    failed: int
    latency_seconds: float | None


@dataclass(frozen=True, slots=True)
class ContractHourAnswer:
    """The counts of the hour that begins at `at`."""

    at: Time
    delivered: int
    dead: int
    dropped: int
    failed: int


@dataclass(frozen=True, slots=True)
class ContractStatistics:
    """What waits for a contract now, and what became of its deliveries.

    `pending`: null if counting them now would take too long. `dead`: its dead letters now. `total` and `last_day` are
    counted by the processes that deliver, which record them once a minute; a minute may be missing after a crash.
    `hours`: the last 24, oldest first.
    """

    contract_id: str
    paused: bool
    pending: int | None
    in_flight: int
    oldest_pending_seconds: int | None
    dead: int
    last_delivered_at: Time | None
    last_failed_at: Time | None
    total: ContractCounts
    last_day: ContractCounts
    hours: list[ContractHourAnswer]
