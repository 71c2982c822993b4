"""The clocks of a simulated machine: both follow the loop's time, and the wall clock can be stepped."""

from __future__ import annotations

from holdfast.proof.simulation.loop import SimLoop
from holdfast.testing.clock import NOON_MS

BOOT_MS = 1_000_000


class LoopClock:
    """A `ports.Clock`. Leases and spool names use the boot clock, due times the wall clock."""

    def __init__(self, loop: SimLoop) -> None:
        self._loop = loop
        self._boots, self._booted_ms, self._stepped_ms = 1, -BOOT_MS, 0
        self._last_ns = 0

    @property
    def boot_id(self) -> str:
        return f"simboot{self._boots}"

    def elapsed_ms(self) -> int:
        """Milliseconds since the simulation began; never stepped."""
        return int(self._loop.time() * 1000 + 1e-6)

    def now_ms(self) -> int:
        return NOON_MS + self._stepped_ms + self.elapsed_ms()

    def boot_ms(self) -> int:
        return self.elapsed_ms() - self._booted_ms

    def boot_ns(self) -> int:
        """Nanoseconds since boot, strictly increasing."""
        self._last_ns = max(self._last_ns + 1, self.boot_ms() * 1_000_000)
        return self._last_ns

    def step_wall(self, ms: int) -> None:
        self._stepped_ms += ms

    def reboot(self) -> None:
        self._boots += 1
        self._booted_ms, self._last_ns = self.elapsed_ms(), 0


class SkewedClock:
    """The clocks of one process, whose wall clock is off by `skew_ms`."""

    def __init__(self, clock: LoopClock, skew_ms: int) -> None:
        self._clock, self.skew_ms = clock, skew_ms

    @property
    def boot_id(self) -> str:
        return self._clock.boot_id

    def now_ms(self) -> int:
        return self._clock.now_ms() + self.skew_ms

    def boot_ms(self) -> int:
        return self._clock.boot_ms()
