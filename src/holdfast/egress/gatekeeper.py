"""The gatekeeper: which addresses may be tried now, how many requests at a time, and when the next one may be sent.

Breakers and rate limits are kept in the store, so that they hold for all processes together; the counts kept here are
of this process alone. A breaker opens after several failures in a row. When its cooldown has passed it lets one probe
through; after a success it closes, and the number of requests at a time doubles from one. A receiver that is down takes
no capacity from the others.
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
from holdfast.store.roles.gates import Gate, Gates
from holdfast.store.roles.owners import Owner
from holdfast.store.roles.page import PAGE_MAX

POLL_S = 1.0
PROBE_MS = 60_000
LATE_US = 25_000  # a request that starts later than this after its slot takes another slot
UNCERTAIN_MS = 50  # a reservation that took this much longer than usual does not say exactly when its slot is
AHEAD_US = 2_000_000  # how far ahead slots are reserved
FAILING_MAX = 10_000
SUCCEEDED_MAX = 10_000
RESERVE_AGAIN_S = 5.0

log = logging.getLogger("holdfast.gates")


class BreakerChange(NamedTuple):
    """A breaker opened (again) or closed. `gate` is its row, as it was before it closed."""

    gate: Gate
    opened: bool


class Gatekeeper:
    """Admits claims by address. `capacity` is the engine's: addresses that fail get at most half of it together.

    `on_change` is called when a breaker opens or closes. `prepare` does set-up that a first request needs: done after
    the wait for a slot, it would make the request late. `wake` asks for a tick; `freed` is called when an address may
    be tried again.
    """

    name = "gates"

    def __init__(
        self,
        gates: Gates,
        owner: Owner,
        clock: Clock,
        capacity: int = 1000,
        on_change: Callable[[BreakerChange], Awaitable[None]] | None = None,
        prepare: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._gates, self._owner, self._clock, self._capacity = gates, owner, clock, capacity
        self._on_change, self._prepare = on_change, prepare
        self._open: dict[str, Gate] = {}
        self._probing: set[str] = set()
        self._ramp: dict[str, int] = {}
        self._failures: Counter[str] = Counter()
        self._succeeded_ms: dict[str, int] = {}  # the last success of each address, on the boot clock
        self._intervals: dict[str, int] = {}
        self._held: Counter[str] = Counter()
        self._trip: dict[str, int] = {}  # breakers to open, with the number of failures in a row
        self._close: set[str] = set()
        self._usual_ms = 1
        self.wake: Callable[[], None] = lambda: None
        self.freed: Callable[[], None] = lambda: None

    async def tick(self) -> float | None:
        """Write breakers that changed here, read those that changed elsewhere, probe those past their cooldown."""
        for address, failures in list(self._trip.items()):
            await self._open_one(address, failures)
            self._trip.pop(address, None)
        for address in list(self._close):
            await self._close_one(address)
            self._close.discard(address)
        open_gates = await self._all_open()
        for address in self._open.keys() - open_gates.keys():  # closed by another process
            self._recover(address)
        self._open = open_gates
        now_ms = self._clock.now_ms()
        for address, gate in open_gates.items():
            due = gate.open_until_ms <= now_ms and address not in self._probing
            if due and await self._gates.probe(self._owner, address, PROBE_MS):
                self._probing.add(address)
                self.freed()
        return POLL_S if open_gates else None

    async def _all_open(self) -> dict[str, Gate]:
        """All open breakers, page by page: one that is missing would count as closed."""
        open_gates: dict[str, Gate] = {}
        after = ""
        while page := await self._gates.open(after):
            open_gates.update((gate.address, gate) for gate in page)
            if len(page) < PAGE_MAX:
                break
            after = page[-1].address
        return open_gates

    def blocked(self) -> frozenset[str]:
        """Addresses for which nothing may be claimed now."""
        if not (self._open or self._trip or self._ramp or self._intervals or self._failures):
            return frozenset()
        full = {address for address, held in self._held.items() if held >= self._allowed(address)}
        if self._failing_full():
            full |= self._failures.keys()
        return frozenset(full | self._trip.keys() | (self._open.keys() - self._probing))

    def is_blocked(self, address: str) -> bool:
        """Whether the breaker is open, so that claims already held must not be tried either."""
        return address in self._trip or (address in self._open and address not in self._probing)

    def admit(self, address: str, interval_us: int) -> bool:
        """Whether one more claim for this address may be held. If so it is counted until `leave`."""
        if interval_us:
            self._intervals[address] = interval_us
        if self._held[address] >= self._allowed(address) or (address in self._failures and self._failing_full()):
            return False
        self._held[address] += 1
        return True

    def leave(self, address: str) -> None:
        """Count one claim less."""
        self._held[address] -= 1
        if self._held[address] <= 0:
            del self._held[address]
            self._intervals.pop(address, None)

    async def wait_for_slot(self, address: str, interval_us: int) -> None:
        """Wait until a rate limit allows this request. One that is late for its slot takes another one.

        Otherwise two requests could be sent at once. The same applies to a slot whose time is uncertain: the store
        counted from some moment between the request and its answer. If the store is always slow, that is soon taken as
        normal.
        """
        if self._prepare is not None:
            await self._prepare()
        while True:
            asked_ms = self._clock.boot_ms()
            wait_us, reserved = await self._gates.reserve(address, interval_us, AHEAD_US)
            answered_ms = self._clock.boot_ms()
            if not reserved:  # the wait is bounded, because the wall clock may be set meanwhile
                await asyncio.sleep(min(RESERVE_AGAIN_S, (wait_us - AHEAD_US) / 1_000_000))
                continue
            taken_ms = answered_ms - asked_ms
            is_certain = taken_ms <= self._usual_ms + UNCERTAIN_MS
            self._usual_ms = max(1, min(taken_ms, 2 * self._usual_ms))
            if not is_certain:
                continue
            spent_us = taken_ms * 500
            await asyncio.sleep(max(0, wait_us - spent_us) / 1_000_000)
            late_us = (self._clock.boot_ms() - answered_ms) * 1000 + spent_us - wait_us
            if late_us <= LATE_US + spent_us:
                return

    def ended(self, address: str, outcome: Outcome) -> None:
        """Count the outcome of an attempt. Only a retry is a failure: a receiver that rejects an event is up."""
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
        if len(self._succeeded_ms) >= SUCCEEDED_MAX and address not in self._succeeded_ms:
            self._succeeded_ms.clear()
        self._succeeded_ms[address] = self._clock.boot_ms()

    def _failing_full(self) -> bool:
        """Whether addresses that fail hold half of the capacity. The other half stays free for the rest."""
        return sum(self._held[address] for address in self._failures) >= self._capacity // 2

    def _allowed(self, address: str) -> int:
        if address in self._probing:
            return 1
        interval_us = self._intervals.get(address)
        limit = self._capacity if interval_us is None else max(1, AHEAD_US // interval_us)
        return min(limit, self._ramp.get(address, limit))

    async def _open_one(self, address: str, failures: int) -> None:
        trips = self._open[address].trips + 1 if address in self._open else 1
        gate = self._open[address] = await self._gates.trip(address, cooldown_ms(trips))
        if gate.trips == 1:
            log.warning("breaker open: %d failures in a row at %s", failures, without_tokens(address))
        await self._report(BreakerChange(gate, opened=True))

    async def _close_one(self, address: str) -> None:
        gate = self._open.get(address)
        if await self._gates.close(address) and gate is not None:
            log.info("breaker closed: a request to %s succeeded", without_tokens(address))
            await self._report(BreakerChange(gate, opened=False))
        self._recover(address)

    def _recover(self, address: str) -> None:
        self._open.pop(address, None)
        self._probing.discard(address)
        self._failures.pop(address, None)
        self._ramp[address] = 1
        self.freed()

    async def _report(self, change: BreakerChange) -> None:
        if self._on_change is not None:
            await self._on_change(change)
