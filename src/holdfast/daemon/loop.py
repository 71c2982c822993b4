"""The one background loop: every duty is an object with a `tick`, and no exception of one can end any of them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from holdfast.domain.errors import StoreFailed, StoreFull
from holdfast.ports import Chance

BACKOFF_S = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
FULL_BACKOFF_S = 0.5
POLL_S = 1.0
LOG_EVERY = 20

log = logging.getLogger("holdfast.loop")


class Duty(Protocol):
    """Something to be done again and again. `tick` says in how many seconds; None: when woken."""

    name: str

    async def tick(self) -> float | None: ...


@dataclass(slots=True)
class Watch:
    """How a duty is doing."""

    duty: Duty
    poll_s: float
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    ticks: int = 0
    failures: int = 0
    last_error: str | None = None


class Loop:
    """Runs duties until stopped. A store that can no longer be trusted ends the loop: everything else is survived."""

    def __init__(self, chance: Chance) -> None:
        self._chance = chance
        self._watches: dict[str, Watch] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self.fatal: asyncio.Future[StoreFailed] = asyncio.get_running_loop().create_future()

    def add(self, duty: Duty, poll_s: float = POLL_S) -> Callable[[], None]:
        """Take on a duty; what is returned wakes it."""
        watch = self._watches[duty.name] = Watch(duty, poll_s)
        self._tasks.append(asyncio.get_running_loop().create_task(self._run(watch), name=f"holdfast:{duty.name}"))
        return watch.wake.set

    def wake(self, *names: str) -> None:
        for name in names:
            if name in self._watches:
                self._watches[name].wake.set()

    def health(self) -> dict[str, str]:
        """Per duty: `ok`, or the error it is retrying after."""
        return {name: watch.last_error or "ok" for name, watch in self._watches.items()}

    def fail(self, error: StoreFailed) -> None:
        """End everything: nothing may be built on a store that can no longer be trusted."""
        if not self.fatal.done():
            log.critical("the store failed: %s", error)
            self.fatal.set_result(error)

    async def stop(self, names: Sequence[str] | None = None) -> None:
        chosen = [task for task in self._tasks if names is None or task.get_name().partition(":")[2] in names]
        for task in chosen:
            task.cancel()
        await asyncio.gather(*chosen, return_exceptions=True)

    async def _run(self, watch: Watch) -> None:
        while True:
            delay = await self._tick(watch)
            if delay is not None and delay <= 0:
                await asyncio.sleep(0)
                continue
            wait_s = watch.poll_s if delay is None else min(delay, watch.poll_s)
            try:
                async with asyncio.timeout(wait_s):
                    await watch.wake.wait()
            except TimeoutError:
                pass

    async def _tick(self, watch: Watch) -> float | None:
        watch.wake.clear()
        try:
            delay = await watch.duty.tick()
        except StoreFailed as error:
            self.fail(error)
            watch.last_error = str(error)
            return None
        except Exception as error:
            return await self._survive(watch, error)
        watch.ticks += 1
        if watch.failures:
            log.info("%s recovered after %d failed tries", watch.duty.name, watch.failures)
        watch.failures, watch.last_error = 0, None
        return delay

    async def _survive(self, watch: Watch, error: Exception) -> float:
        watch.failures += 1
        watch.last_error = f"{type(error).__name__}: {error}"[:500]
        if watch.failures == 1 or watch.failures % LOG_EVERY == 0:
            log.error("%s failed (%d in a row) and goes on: %s", watch.duty.name, watch.failures, error, exc_info=error)
        base = BACKOFF_S[min(watch.failures, len(BACKOFF_S)) - 1]
        if isinstance(
            error, StoreFull
        ):  # to look for room costs nothing, and all should go on as soon as there is some
            base = min(base, FULL_BACKOFF_S)
        await asyncio.sleep(base * (1 + self._chance.fraction()))
        return 0.0
