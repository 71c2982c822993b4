"""The circuit breaker of an address: when it opens, and for how long."""

from __future__ import annotations

FAILURES_MAX = 5
"""Consecutive failures that open a breaker, if the last success is at least `QUIET_MS` ago."""
STREAK_MAX = 25
"""Consecutive failures that open a breaker, however recent the last success is."""
QUIET_MS = 1_000
COOLDOWN_MS = 2_000
COOLDOWN_MAX_MS = 30_000
RAMP_MAX = 64


def opens(failures: int, quiet_ms: int | None) -> bool:
    """Whether this many consecutive failures open the breaker. `quiet_ms`: time since the last success, if known.

    A fast receiver that fails one request in five soon fails five in a row by chance, with successes between them:
    hence the second condition.

    >>> [opens(4, None), opens(5, None), opens(5, 10), opens(5, 1_000), opens(25, 10)]
    [False, True, False, True, True]
    """
    return failures >= STREAK_MAX or (failures >= FAILURES_MAX and (quiet_ms is None or quiet_ms >= QUIET_MS))


def cooldown_ms(trips: int) -> int:
    """How long no attempt is made after the breaker opened for the `trips`-th time in a row.

    >>> [cooldown_ms(trips) for trips in (1, 2, 3, 9)]
    [2000, 4000, 8000, 30000]
    """
    return int(min(COOLDOWN_MAX_MS, COOLDOWN_MS * 2 ** (min(trips, 30) - 1)))
