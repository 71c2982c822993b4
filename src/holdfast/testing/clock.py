"""A clock and random numbers that a test controls, independent of the machine."""

from __future__ import annotations

from random import Random

NOON_MS = 1_700_000_000_000


class ManualClock:
    """A `ports.Clock` that moves only by its methods.

    >>> clock = ManualClock(now_ms=5_000, boot_ms=1_000)
    >>> clock.advance(2)
    >>> clock.step_wall(-3600)
    >>> clock.now_ms(), clock.boot_ms()
    (-3593000, 3000)
    """

    def __init__(self, now_ms: int = NOON_MS, boot_ms: int = 1_000_000, boot_id: str = "boot1") -> None:
        self._now_ms, self._boot_ms, self.boot_id = now_ms, boot_ms, boot_id

    def now_ms(self) -> int:
        return self._now_ms

    def boot_ms(self) -> int:
        return self._boot_ms

    def advance(self, seconds: float) -> None:
        """Move both clocks forward."""
        if seconds < 0:
            raise ValueError("seconds must not be negative; use step_wall to set the wall clock back")
        self._now_ms += round(seconds * 1000)
        self._boot_ms += round(seconds * 1000)

    def step_wall(self, seconds: float) -> None:
        """Step the wall clock; the boot clock does not move."""
        self._now_ms += round(seconds * 1000)

    def reboot(self, boot_id: str, boot_ms: int = 1_000) -> None:
        """Restart the machine: a new boot id, and a boot clock that starts again."""
        self.boot_id, self._boot_ms = boot_id, boot_ms


class SeededChance:
    """A `ports.Chance` that gives the same sequence for the same seed."""

    def __init__(self, seed: int = 0) -> None:
        self._random = Random(seed)

    def entropy(self, count: int) -> bytes:
        return self._random.randbytes(count)

    def fraction(self) -> float:
        return self._random.random()

    def token(self) -> int:
        return self._random.getrandbits(63) or 1
