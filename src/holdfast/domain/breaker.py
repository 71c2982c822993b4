"""When to leave an address alone, and for how long: a breaker as plain numbers."""

from __future__ import annotations

FAILURES_MAX = 5
COOLDOWN_MS = 2_000
COOLDOWN_MAX_MS = 30_000
RAMP_MAX = 64


def cooldown_ms(trips: int) -> int:
    """How long nobody tries after the breaker opened for the `trips`-th time in a row.

    >>> [cooldown_ms(trips) for trips in (1, 2, 3, 9)]
    [2000, 4000, 8000, 30000]
    """
    return int(min(COOLDOWN_MAX_MS, COOLDOWN_MS * 2 ** (min(trips, 30) - 1)))
