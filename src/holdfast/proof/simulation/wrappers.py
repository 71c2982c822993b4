"""Wrappers between the parts of a simulated process: they record, slow down, or inject faults."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from holdfast.daemon.loop import Duty
from holdfast.domain.delivery import Claim, Settlement
from holdfast.domain.event import Appended, NewEvent
from holdfast.egress.deadlines import Deadlines
from holdfast.proof.simulation.environment import Environment, SimulatedProcess
from holdfast.proof.simulation.ledger import Settled
from holdfast.store.roles.deliveries import Deliveries
from holdfast.store.roles.events import Events
from holdfast.store.roles.gates import Gate, Gates
from holdfast.store.roles.owners import Actor, Owner
from holdfast.store.roles.routing import Plan, Routing, RoutingBatch

IDLE_S = 4.0
AT_ONCE_S = 1.0
"""A duty that asks for a shorter delay than this has something due by then."""


class RecordedDeliveries:
    """Deliveries for the engine: records released leases and the result of each settlement."""

    def __init__(self, process: SimulatedProcess, inner: Deliveries) -> None:
        self._process, self._inner = process, inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def settle(self, owner: Owner, settlements: Sequence[Settlement]) -> set[int]:
        lost = await self._inner.settle(owner, settlements)
        ledger = self._process.world.ledger
        for item in settlements:
            id, token = item.claim.delivery.id, item.claim.token
            ledger.settled.append(Settled(ledger.next_n(), self._process.name, id, token, id in lost))
            if id in lost:
                ledger.fault("settlement refused: lease lost")
                self._process.log(f"lost its lease of {id}")
        return lost

    async def release(self, claims: Sequence[Claim]) -> None:
        self._process.world.ledger.released.update((claim.delivery.id, claim.token) for claim in claims)
        await self._inner.release(claims)


class RecordedGates:
    """Gates for the gatekeeper: checks that no probe is refused because a dead keeper holds it."""

    def __init__(self, process: SimulatedProcess, inner: Gates) -> None:
        self._process, self._inner = process, inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def trip(self, address: str, cooldown_ms: int) -> Gate:
        gate = await self._inner.trip(address, cooldown_ms)
        self._process.world.probers.pop(address, None)
        self._process.log(f"opens the breaker of {address}")
        self._process.world.ledger.fault("breaker opened")
        return gate

    async def probe(self, owner: Owner, address: str, lease_ms: int) -> bool:
        process, world = self._process, self._process.world
        granted = await self._inner.probe(owner, address, lease_ms)
        holder = world.probers.get(address)
        if granted:
            world.probers[address] = process
            process.log(f"may probe {address}")
        elif process.keep and holder is not None and holder.keep and holder.life.dead and await self._is_due(address):
            world.errors.append(
                f"{process.name} may not probe {address}: {holder.name}, which is dead, holds the probe"
            )
        return granted

    async def close(self, address: str) -> bool:
        self._process.world.probers.pop(address, None)
        return await self._inner.close(address)

    async def _is_due(self, address: str) -> bool:
        now_ms = self._process.clock.now_ms()
        return any(gate.address == address and gate.open_until_ms <= now_ms for gate in await self._inner.open())


class CrashingEvents:
    """Events for the spool import: the process may crash between the commit and the removal of the records."""

    def __init__(self, process: SimulatedProcess, inner: Events) -> None:
        self._process, self._inner = process, inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def append(self, events: Sequence[NewEvent]) -> list[Appended]:
        answers = await self._inner.append(events)
        self._process.world.injector.maybe_crash_after_import(self._process)
        return answers


class SlowPolledDuty:
    """A duty that polls less often while nothing changes: after 1, 2, then every 4 seconds.

    Otherwise most steps of a schedule would poll an unchanged store while a lease runs out or a receiver is slow. Due
    work is found a little later, never sooner.
    """

    def __init__(self, world: Environment, inner: Duty, poll_s: float = 1.0) -> None:
        self._world, self._inner, self.name, self._poll_s = world, inner, inner.name, poll_s
        self._hurries = not isinstance(inner, Deadlines)  # it would poll the same deadlines twenty times a second
        self._wait_s, self._seen = poll_s, -1

    async def tick(self) -> float | None:
        delay_s = await self._inner.tick()
        changes_seen, self._seen = self._world.changes_seen != self._seen, self._world.changes_seen
        self._wait_s = self._poll_s if changes_seen else min(self._wait_s * 2, max(IDLE_S, self._poll_s))
        return delay_s if self._hurries and delay_s is not None and delay_s < AT_ONCE_S else self._wait_s


class SingleBatchRouting:
    """Routing in batches of one event."""

    misses_wakeups = False

    def __init__(self, inner: Routing) -> None:
        self._inner = inner

    @asynccontextmanager
    async def batch(self, limit: int, payloads: bool = False) -> AsyncIterator[RoutingBatch]:
        async with self._inner.batch(1) as batch:
            yield batch

    async def backlog(self) -> int:
        return await self._inner.backlog()

    async def deliver(self, plans: Sequence[Plan], *, by: Actor | None = None) -> int:
        return await self._inner.deliver(plans, by=by)
