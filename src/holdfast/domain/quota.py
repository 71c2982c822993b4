"""Quota: at most so many in an hour, counted by whole minutes of the wall clock."""

from __future__ import annotations

MINUTE_MS = 60_000
HOUR_MINUTES = 60


def quota_wait_ms(taken: int, first_minute: int | None, limit: int, now_ms: int) -> int:
    """0 if one more is within the limit, else the milliseconds until the first counted minute is forgotten.

    A minute counts until it ended more than an hour ago. So no hour has more than the limit, whenever it begins.

    >>> quota_wait_ms(2, 10, 3, 11 * MINUTE_MS), quota_wait_ms(3, 10, 3, 70 * MINUTE_MS)
    (0, 60000)
    """
    if taken < limit or first_minute is None:
        return 0
    return max(1, (first_minute + HOUR_MINUTES + 1) * MINUTE_MS - now_ms)
