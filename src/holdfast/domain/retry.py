"""Retry policies: delays, number of attempts and lease time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

RETRY_AFTER_MAX_S = 3600.0


@dataclass(frozen=True, slots=True)
class Policy:
    """A schedule of delays (the last one repeats), a number of attempts (None: no limit), a lease, and jitter.

    Jitter is only added: an attempt may be later than in the schedule, never earlier.
    """

    name: str
    schedule_s: tuple[float, ...]
    attempts: int | None
    lease_s: float
    jitter: float = 0.1

    def delay_s(self, attempts: int, chance: float, hint_s: float | None = None) -> float:
        """Seconds to wait after the attempt number `attempts` (1 is the first). `chance` is in [0, 1)."""
        base = self.schedule_s[min(attempts, len(self.schedule_s)) - 1]
        if hint_s is not None:
            base = max(base, min(hint_s, RETRY_AFTER_MAX_S))
        return base * (1.0 + self.jitter * chance)

    def exhausted(self, attempts: int) -> bool:
        return self.attempts is not None and attempts >= self.attempts


_DOUBLING = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0)
_MINUTE, _HOUR = 60.0, 3600.0

POLICIES: Mapping[str, Policy] = {
    policy.name: policy
    for policy in (
        Policy("hook", _DOUBLING, attempts=20, lease_s=30.0),
        Policy("webhook", _DOUBLING, attempts=10, lease_s=30.0),
        Policy(
            "patient",
            (
                5.0, 5 * _MINUTE, 30 * _MINUTE, 2 * _HOUR, 5 * _HOUR,
                10 * _HOUR, 14 * _HOUR, 20 * _HOUR, 24 * _HOUR,
            ),
            attempts=10,
            lease_s=30.0,
            jitter=0.25,
        ),
        Policy("message", (5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 300.0), attempts=None, lease_s=300.0),
        Policy(
            "receipt",
            (5.0, 15.0, 60.0, 300.0, 900.0, 1800.0, 3600.0, 7200.0),
            attempts=24,
            lease_s=300.0,
        ),
    )
}  # fmt: skip
