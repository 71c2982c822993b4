"""The background loop: runs every duty (an object with a `tick`) and survives any exception of a duty."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from holdfast.domain.errors import StoreBusy, StoreFailed, StoreFull
from holdfast.ports import Chance

BACKOFF_S = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
FULL_BACKOFF_S = 0.5
BUSY_BACKOFF_S = 1.0
POLL_S = 1.0
LOG_EVERY = 20

log = logging.getLogger("holdfast.loop")


class Duty(Protocol):
    """Recurring work. `tick` returns in how many seconds to run it again, or None to wait until it is woken."""

    name: str

    async def tick(self) -> float | None: ...


@dataclass(slots=True)
class DutyState:
    """A duty with its schedule and health."""

    duty: Duty
    poll_s: float
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    ticks: int = 0
    failures: int = 0
    last_error: str | None = None


class Loop:
    """Runs duties until stopped. Only a store that can no longer be trusted (`StoreFailed`) ends the loop."""

    def __init__(self, chance: Chance) -> None:
        self._chance = chance
        self._duties: dict[str, DutyState] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self.fatal: asyncio.Future[StoreFailed] = asyncio.get_running_loop().create_future()

    def add(self, duty: Duty, poll_s: float = POLL_S) -> Callable[[], None]:
        """Start running a duty. Returns a function that wakes it."""
        state = self._duties[duty.name] = DutyState(duty, poll_s)
        self._tasks.append(asyncio.get_running_loop().create_task(self._run(state), name=f"holdfast:{duty.name}"))
        return state.wake.set

    def wake(self, *names: str) -> None:
        for name in names:
            if name in self._duties:
                self._duties[name].wake.set()

    def health(self) -> dict[str, str]:
        """For each duty `ok`, or the error after which it is being retried."""
        return {name: state.last_error or "ok" for name, state in self._duties.items()}

    def fail(self, error: StoreFailed) -> None:
        """Report a fatal error of the store. The owner of the loop stops everything."""
        if not self.fatal.done():
            log.critical("the store failed: %s", error)
            self.fatal.set_result(error)

    async def stop(self, names: Sequence[str] | None = None) -> None:
        chosen = [task for task in self._tasks if names is None or task.get_name().partition(":")[2] in names]
        for task in chosen:
            task.cancel()
        await asyncio.gather(*chosen, return_exceptions=True)

    async def _run(self, state: DutyState) -> None:
        while True:
            delay = await self._tick(state)
            if delay is not None and delay <= 0:
                await asyncio.sleep(0)
                continue
            wait_s = state.poll_s if delay is None else min(delay, state.poll_s)
            try:
                async with asyncio.timeout(wait_s):
                    await state.wake.wait()
            except TimeoutError:
                pass

    async def _tick(self, state: DutyState) -> float | None:
        state.wake.clear()
        try:
            delay = await state.duty.tick()
        except StoreFailed as error:
            self.fail(error)
            state.last_error = str(error)
            return None
        except Exception as error:
            return await self._survive(state, error)
        state.ticks += 1
        if state.failures:
            log.info("%s recovered after %d failures", state.duty.name, state.failures)
        state.failures, state.last_error = 0, None
        return delay

    async def _survive(self, state: DutyState, error: Exception) -> float:
        state.failures += 1
        state.last_error = f"{type(error).__name__}: {error}"[:500]
        if state.failures == 1 or state.failures % LOG_EVERY == 0:
            log.error(
                "%s failed (%d times in a row) and will be retried: %s",
                state.duty.name,
                state.failures,
                error,
                exc_info=error,
            )
        base = BACKOFF_S[min(state.failures, len(BACKOFF_S)) - 1]
        if isinstance(error, StoreFull):  # checking for free space is cheap, and work should resume promptly
            base = min(base, FULL_BACKOFF_S)
        elif isinstance(error, StoreBusy):  # a standby may have taken over meanwhile
            base = min(base, BUSY_BACKOFF_S)
        await asyncio.sleep(base * (1 + self._chance.fraction()))
        return 0.0
