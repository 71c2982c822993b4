"""Deadlines of attempts."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from holdfast.egress.attempt_log import AttemptLog
from holdfast.egress.held_claim import HeldClaim
from holdfast.ports import Clock

CHECK_MIN_S = 0.05  # a deadline is enforced this late at most
IGNORED_MS = 5000  # a coroutine that runs this long after its cancellation ignores it


class Deadlines:
    """Cancels attempts that have run longer than their timeout.

    One pass over all held claims costs less than a timer for each attempt.
    """

    name = "deadlines"

    def __init__(self, held: Mapping[int, HeldClaim], clock: Clock, log: AttemptLog) -> None:
        self._held, self._clock, self._log = held, clock, log
        self._next_check_ms: int | None = None  # on the boot clock
        self.wake: Callable[[], None] = lambda: None

    def start(self, held: HeldClaim) -> None:
        """Set the deadline of an attempt, counted from now."""
        held.deadline_ms = self._clock.boot_ms() + round(held.terms.timeout_s * 1000)
        if self._next_check_ms is None or held.deadline_ms < self._next_check_ms:
            self._next_check_ms = held.deadline_ms
            self.wake()

    async def tick(self) -> float | None:
        """Cancel what is late; the seconds until the next deadline."""
        now_ms = self._clock.boot_ms()
        next_ms: int | None = None
        for held in self._held.values():
            if held.worker is None or held.deadline_ms is None:
                continue
            if now_ms >= held.deadline_ms:
                self._end_late(held, now_ms)
            if (due_ms := held.deadline_ms) and (next_ms is None or due_ms < next_ms):
                next_ms = due_ms
        self._next_check_ms = next_ms
        return None if next_ms is None else max(CHECK_MIN_S, (next_ms - now_ms) / 1000)

    def _end_late(self, held: HeldClaim, now_ms: int) -> None:
        """Cancel a coroutine. A plain function cannot be cancelled: its lane waits for it, and its success counts."""
        if not held.in_thread and not held.is_cancelled and held.worker is not None:
            held.late = True
            held.deadline_ms = now_ms + IGNORED_MS
            held.worker.cancel()
            return
        if not held.overdue:
            held.overdue = True
            self._log.overdue(held)
        held.deadline_ms = None
