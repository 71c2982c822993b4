"""What one sink has done since the process started: counts, latency, throughput."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Sequence

from holdfast.domain.event import Event

LATENCY_MS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 60_000)
"""Upper bounds of the latency classes; the last class has none."""
WINDOW_S = 60


class SinkStatistics:
    """Latency is the time from the acceptance of an event to the sink's confirmation."""

    def __init__(self, started_ms: int) -> None:
        self._started_ms = started_ms
        self.published = self.failures = self.skipped = 0
        self.latency_sum_ms = 0
        self.latency_counts = [0] * (len(LATENCY_MS) + 1)
        self._recent: deque[tuple[int, int]] = deque(maxlen=WINDOW_S + 1)  # (second, events)

    def add(self, events: Sequence[Event], now_ms: int) -> None:
        """Count events that the sink has confirmed now."""
        for event in events:
            late_ms = max(0, now_ms - event.accepted_at_ms)
            self.latency_sum_ms += late_ms
            self.latency_counts[bisect_left(LATENCY_MS, late_ms)] += 1
        self.published += len(events)
        second = now_ms // 1000
        if self._recent and self._recent[-1][0] == second:
            self._recent[-1] = (second, self._recent[-1][1] + len(events))
        else:
            self._recent.append((second, len(events)))

    def per_second(self, now_ms: int) -> float:
        """Confirmed events per second in the last minute, or since the start if that is shorter ago."""
        since = now_ms // 1000 - WINDOW_S
        count = sum(events for second, events in self._recent if second > since)
        seconds = min(WINDOW_S, max(1.0, (now_ms - self._started_ms) / 1000))
        return round(count / seconds, 1)

    def latency_ms(self, share: float) -> int | None:
        """An upper bound of the latency of that share of the events (0.5: the median); None without events.

        The last class has no bound: its lower one is returned.
        """
        wanted, seen = share * self.published, 0
        for bound, count in zip((*LATENCY_MS, LATENCY_MS[-1]), self.latency_counts, strict=True):
            seen += count
            if count and seen >= wanted:
                return bound
        return None
