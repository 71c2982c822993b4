"""A store with one contract and an engine, driven tick by tick."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from holdfast.domain.address import parse_address
from holdfast.domain.contract import Contract, Criterion
from holdfast.domain.delivery import Claim, Delivered, Outcome
from holdfast.domain.event import NewEvent, new_event
from holdfast.domain.retry import POLICIES
from holdfast.egress.deliverer import Attempt
from holdfast.egress.engine import Engine
from holdfast.ports import Inline
from holdfast.routing.registry import Registry
from holdfast.routing.router import Router
from holdfast.store.open import open_store
from holdfast.store.roles.operator import DeliveryFilter, DeliveryRow
from holdfast.store.roles.store import Store
from holdfast.testing.clock import ManualClock, SeededChance


class Script:
    """A deliverer controlled by the test, which records the claims it gets."""

    def __init__(self, kind: str = "handler", addresses: frozenset[str] | None = None) -> None:
        self.kind = kind
        self._addresses = addresses
        self.seen: list[Claim] = []
        self.answer: Callable[[Claim], Any] = lambda claim: Delivered()
        self.closed = False

    def serves(self) -> frozenset[str] | None:
        return self._addresses

    async def deliver(self, claim: Claim, attempt: Attempt) -> Outcome:
        self.seen.append(claim)
        answer = self.answer(claim)
        return await answer if asyncio.iscoroutine(answer) else answer

    async def close(self) -> None:
        self.closed = True

    @property
    def seqs(self) -> list[int]:
        return [claim.event.seq for claim in self.seen]


class EngineHarness:
    """Everything between an appended event and its settled delivery, one step at a time."""

    def __init__(self, folder: Path) -> None:
        self.clock = ManualClock()
        self.chance = SeededChance(1)
        self.store: Store = open_store(
            f"sqlite:///{folder}/store.db",
            keep=True,
            clock=self.clock,
            chance=self.chance,
            executor=lambda name: Inline(),
        )
        self.script = Script()
        self.registry = Registry(self.store.contracts, POLICIES)
        self.router = Router(self.store.routing, self.registry)
        self.engine: Engine

    async def start(self, **options: Any) -> EngineHarness:
        self.owner = await self.store.owners.register()
        self.engine = self.new_engine(**options)
        return self

    def new_engine(self, **options: Any) -> Engine:
        return Engine(
            self.store.deliveries,
            self.owner,
            {self.script.kind: self.script},
            self.registry.terms_of,
            self.clock,
            self.chance,
            **options,
        )

    async def contract(self, id: str = "c", address: str = "handler:h", pattern: str = "*", **options: Any) -> None:
        await self.store.contracts.put(
            Contract(id, parse_address(address), type_criterion=Criterion(pattern=pattern), **options), None
        )
        await self.registry.refresh()

    async def publish(self, *events: NewEvent) -> None:
        await self.store.events.append(list(events))
        await self.route()

    async def stream(self, count: int, stream: str = "s", first: int = 1) -> None:
        await self.publish(*[new_event("t.x", {"i": i}, stream=stream) for i in range(first, first + count)])

    async def route(self) -> None:
        while await self.router.tick() is not None:
            pass

    async def step(self) -> float | None:
        """One tick, then wait until the workers are idle."""
        delay = await self.engine.tick()
        for _ in range(20):
            await asyncio.sleep(0)
        return delay

    async def drain(self, steps: int = 50) -> None:
        """Tick until nothing is in flight and nothing is due."""
        for _ in range(steps):
            before = len(self.script.seen)
            await self.step()
            if len(self.script.seen) == before and not self.engine.in_flight:
                return

    async def rows(self, **wanted: Any) -> list[DeliveryRow]:
        return (await self.store.operator.deliveries(DeliveryFilter(**wanted), None, 1000)).items[::-1]

    async def states(self) -> list[str]:
        return [row.state for row in await self.rows()]
