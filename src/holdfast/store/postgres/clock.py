"""The database's clock, as this process can tell it without asking each time.

Due times, retention and all other times in the store are the database's: processes whose own clocks differ, or jump,
agree on what is due. Between two looks at it, it runs on with the boot clock, which nobody can set.
"""

from __future__ import annotations

from holdfast.ports import Clock

STALE_MS = 60_000


class ServerClock:
    """`own`: a test brings a clock and owns all time; then that one is everybody's."""

    def __init__(self, local: Clock, own: bool) -> None:
        self._local, self._own = local, own
        self._ahead_ms: int | None = None
        self._learned_ms = self._doubt_ms = 0

    @property
    def boot_id(self) -> str:
        return self._local.boot_id

    def boot_ms(self) -> int:
        return self._local.boot_ms()

    def now_ms(self) -> int:
        if self._own or self._ahead_ms is None:
            return self._local.now_ms()
        return self._local.boot_ms() + self._ahead_ms

    def learn(self, server_ms: int, asked_ms: int) -> None:
        """What the database's clock showed at some moment since we asked, by our boot clock.

        An answer that took its time, as for one who was stopped meanwhile, says little: what we knew better stays.
        """
        now_ms = self._local.boot_ms()
        ahead_ms, doubt_ms = server_ms - now_ms, now_ms - asked_ms
        if self._ahead_ms is not None and not self.stale and doubt_ms > self._doubt_ms:
            agrees = ahead_ms - self._doubt_ms <= self._ahead_ms <= ahead_ms + doubt_ms
            if agrees:
                return
        self._learned_ms, self._ahead_ms, self._doubt_ms = now_ms, ahead_ms, doubt_ms

    @property
    def stale(self) -> bool:
        """Whether it is time to look again."""
        return self._ahead_ms is None or self._local.boot_ms() - self._learned_ms > STALE_MS

    def shift_ms(self) -> int:
        """What turns a time by this process's own clock into one by the database's."""
        return self.now_ms() - self._local.now_ms()
