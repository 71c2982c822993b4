"""An estimate of the database's clock that does not need a query for each reading.

Due times, retention and all other times in the store are database times, so that processes whose own clocks differ or
jump agree on what is due. Between two measurements the estimate advances with the boot clock, which cannot be set.
"""

from __future__ import annotations

from holdfast.ports import Clock

STALE_MS = 60_000


class ServerClock:
    """The database's time for one process. `own`: a test provides the clock, and its time is used for everything."""

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
        """Take in a reading of the database's clock, made at some moment since `asked_ms` (boot clock).

        A slow answer, for example because this process was stopped meanwhile, is imprecise: a more precise earlier
        estimate that agrees with it is kept.
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
        """Whether the clock should be measured again."""
        return self._ahead_ms is None or self._local.boot_ms() - self._learned_ms > STALE_MS

    def shift_ms(self) -> int:
        """The difference to add to a time of this process's own clock to get database time."""
        return self.now_ms() - self._local.now_ms()
