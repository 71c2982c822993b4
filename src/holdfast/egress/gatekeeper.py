"""The gatekeeper: which addresses may be tried now, how many requests at a time, and when the next one may go.

Breakers and rates stand in the store, so that every process keeps to them; what is counted here is only what this
process holds. A breaker opens after a few failures in a row, lets one request through when its time is over, and after
a success the number at a time grows again from one. One dead receiver costs nobody else a turn.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from holdfast.domain.address import without_tokens
from holdfast.domain.breaker import RAMP_MAX, cooldown_ms, opens
from holdfast.domain.delivery import Outcome, Retry
from holdfast.ports import Clock
from holdfast.store.base import PAGE_MAX, Gate, Gates, Owner

POLL_S = 1.0
PROBE_MS = 60_000
LATE_US = 25_000
SURE_MS = 50
AHEAD_US = 2_000_000
FAILING_MAX = 10_000
KNOWN_MAX = 10_000
LOOK_AGAIN_S = 5.0

log = logging.getLogger("holdfast.gates")


class BreakerChange(NamedTuple):
    """What the gatekeeper tells: a breaker opened (again), or closed, with the row it had."""

    gate: Gate
    opened: bool


class Gatekeeper:
    """`tell` is given the news of breakers. `capacity` is the engine's: failing addresses together get half of it.

    `wake` asks for a tick; `freed` is called when an address may be tried again. `ready` does what must be done once
    before a request can leave: it must not fall between a request's moment and the request.
    """

    name = "gates"

    def __init__(
        self,
        gates: Gates,
        owner: Owner,
        clock: Clock,
        capacity: int = 1000,
        tell: Callable[[BreakerChange], Awaitable[None]] | None = None,
        ready: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._gates, self._owner, self._clock, self._capacity, self._tell = gates, owner, clock, capacity, tell
        self._ready = ready
        self._open: dict[str, Gate] = {}
        self._probing: set[str] = set()
        self._ramp: dict[str, int] = {}
        self._failures: Counter[str] = Counter()
        self._succeeded_ms: dict[str, int] = {}  # the last success of each address, on the boot clock
        self._intervals: dict[str, int] = {}
        self._held: Counter[str] = Counter()
        self._trip: dict[str, int] = {}  # breakers to open, with the failures in a row that opened them
        self._close: set[str] = set()
        self._usual_ms = 1
        self.wake: Callable[[], None] = lambda: None
        self.freed: Callable[[], None] = lambda: None

    async def tick(self) -> float | None:
        """Write down what changed, look at what others wrote, and try again where the time has come."""
        for address, failures in list(self._trip.items()):
            await self._open_one(address, failures)
            self._trip.pop(address, None)
        for address in list(self._close):
            await self._close_one(address)
            self._close.discard(address)
        found = await self._all_open()
        for address in self._open.keys() - found.keys():  # closed by another process
            self._recover(address)
        self._open = found
        now_ms = self._clock.now_ms()
        for address, gate in found.items():
            due = gate.open_until_ms <= now_ms and address not in self._probing
            if due and await self._gates.probe(self._owner, address, PROBE_MS):
                self._probing.add(address)
                self.freed()
        return POLL_S if found else None

    async def _all_open(self) -> dict[str, Gate]:
        """Every breaker that is open: one that were left off would pass for closed."""
        found: dict[str, Gate] = {}
        after = ""
        while page := await self._gates.open(after):
            found.update((gate.address, gate) for gate in page)
            if len(page) < PAGE_MAX:
                break
            after = page[-1].address
        return found

    def shut(self) -> frozenset[str]:
        """Addresses of which nothing is to be claimed now."""
        if not (self._open or self._trip or self._ramp or self._intervals or self._failures):
            return frozenset()
        full = {address for address, held in self._held.items() if held >= self._allowed(address)}
        if self._failing_full():
            full |= self._failures.keys()
        return frozenset(full | self._trip.keys() | (self._open.keys() - self._probing))

    def is_shut(self, address: str) -> bool:
        """Whether what is already held is not to be tried after all."""
        return address in self._trip or (address in self._open and address not in self._probing)

    def admit(self, address: str, interval_us: int) -> bool:
        """Whether one more request to this address may be held. True counts it in: `leave` counts it out."""
        if interval_us:
            self._intervals[address] = interval_us
        if self._held[address] >= self._allowed(address) or (address in self._failures and self._failing_full()):
            return False
        self._held[address] += 1
        return True

    def leave(self, address: str) -> None:
        self._held[address] -= 1
        if self._held[address] <= 0:
            del self._held[address]
            self._intervals.pop(address, None)

    async def turn(self, address: str, interval_us: int) -> None:
        """Wait for this request's moment. One that came too late for it takes another: two must not fall together.

        So does one whose moment is not known well enough: the store counted from somewhere between the question and its
        answer. Where its answers take longer for good, that is soon taken for usual.
        """
        if self._ready is not None:
            await self._ready()
        while True:
            asked_ms = self._clock.boot_ms()
            wait_us, reserved = await self._gates.reserve(address, interval_us, AHEAD_US)
            answered_ms = self._clock.boot_ms()
            if not reserved:  # the clock may be set meanwhile, so look again now and then
                await asyncio.sleep(min(LOOK_AGAIN_S, (wait_us - AHEAD_US) / 1_000_000))
                continue
            taken_ms = answered_ms - asked_ms
            is_sure = taken_ms <= self._usual_ms + SURE_MS
            self._usual_ms = max(1, min(taken_ms, 2 * self._usual_ms))
            if not is_sure:
                continue
            spent_us = taken_ms * 500
            await asyncio.sleep(max(0, wait_us - spent_us) / 1_000_000)
            late_us = (self._clock.boot_ms() - answered_ms) * 1000 + spent_us - wait_us
            if late_us <= LATE_US + spent_us:
                return

    def ended(self, address: str, outcome: Outcome) -> None:
        """An attempt came to its end. A receiver that refuses is alive; one that must be tried again may not be."""
        if not isinstance(outcome, Retry):
            self._failures.pop(address, None)
            self._trip.pop(address, None)
            self._note_success(address)
            if address in self._open:
                self._close.add(address)
                self.wake()
            elif address in self._ramp:
                self._ramp[address] *= 2
                if self._ramp[address] > RAMP_MAX:
                    del self._ramp[address]
            return
        if len(self._failures) < FAILING_MAX or address in self._failures:
            self._failures[address] += 1
        failures, succeeded_ms = self._failures[address], self._succeeded_ms.get(address)
        quiet_ms = None if succeeded_ms is None else self._clock.boot_ms() - succeeded_ms
        if address in self._probing or (address not in self._open and opens(failures, quiet_ms)):
            self._probing.discard(address)
            self._trip[address] = failures
            self.wake()

    def _note_success(self, address: str) -> None:
        if len(self._succeeded_ms) >= KNOWN_MAX and address not in self._succeeded_ms:
            self._succeeded_ms.clear()
        self._succeeded_ms[address] = self._clock.boot_ms()

    def _failing_full(self) -> bool:
        """First attempts keep their half, however many receivers fail."""
        return sum(self._held[address] for address in self._failures) >= self._capacity // 2

    def _allowed(self, address: str) -> int:
        if address in self._probing:
            return 1
        interval_us = self._intervals.get(address)
        most = self._capacity if interval_us is None else max(1, AHEAD_US // interval_us)
        return min(most, self._ramp.get(address, most))

    async def _open_one(self, address: str, failures: int) -> None:
        trips = self._open[address].trips + 1 if address in self._open else 1
        gate = self._open[address] = await self._gates.trip(address, cooldown_ms(trips))
        if gate.trips == 1:
            log.warning("breaker open: %d failures in a row at %s", failures, without_tokens(address))
        await self._say(BreakerChange(gate, opened=True))

    async def _close_one(self, address: str) -> None:
        gate = self._open.get(address)
        if await self._gates.close(address) and gate is not None:
            log.info("breaker closed: %s answers again", without_tokens(address))
            await self._say(BreakerChange(gate, opened=False))
        self._recover(address)

    def _recover(self, address: str) -> None:
        self._open.pop(address, None)
        self._probing.discard(address)
        self._failures.pop(address, None)
        self._ramp[address] = 1
        self.freed()

    async def _say(self, news: BreakerChange) -> None:
        if self._tell is not None:
            await self._tell(news)
