"""How long to wait after failures in a row: doubled each time, up to a limit, with jitter."""

from __future__ import annotations

FIRST_S = 0.1
MAX_S = 5.0


def backoff_s(failures: int, fraction: float) -> float:
    """Seconds to wait after this many failures. `fraction` (0 to 1) is the jitter: half of the time is random.

    >>> backoff_s(1, 1.0), backoff_s(3, 0.0), backoff_s(100, 1.0)
    (0.1, 0.2, 5.0)
    """
    longest = min(MAX_S, FIRST_S * 2.0 ** min(failures - 1, 20))
    return longest / 2 + longest / 2 * fraction
