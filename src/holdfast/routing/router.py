"""The router: creates deliveries for events, in stream order, in one transaction with its own position."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Protocol

from holdfast.domain.delivery import Claim
from holdfast.ports import NO_COUNTERS, NO_TRACING, Counters, Tracing
from holdfast.routing.registry import Registry
from holdfast.store.roles.deliveries import BATCH_MAX
from holdfast.store.roles.owners import Owner
from holdfast.store.roles.routing import LeaseOffer, Plan, Routing, RoutingBatch

RECHECK_DELAYS_S = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5)
"""Pauses between looks after the last event. See `Routing.misses_wakeups`."""


class LocalEngine(Protocol):
    """The engine of the same process. It can begin new deliveries at once, so that they need not be claimed."""

    async def wait_for_places(self) -> None:
        """Wait a short time while the engine works off what it holds: the next batch then costs less."""

    def offer(self, plans: Sequence[Plan]) -> LeaseOffer | None:
        """Reserve places for the deliveries of these plans; None: there are none."""

    def take(self, offer: LeaseOffer, claims: Sequence[Claim]) -> None:
        """End the reservation, and begin the deliveries that were leased for it."""


class Router:
    name = "router"

    def __init__(
        self,
        routing: Routing,
        registry: Registry,
        owner: Owner | None = None,
        taker: LocalEngine | None = None,
        counters: Counters = NO_COUNTERS,
        tracing: Tracing = NO_TRACING,
    ) -> None:
        self._routing, self._registry, self._owner, self._taker = routing, registry, owner, taker
        self._counters, self._tracing = counters, tracing
        self._full = False
        self._looks = len(RECHECK_DELAYS_S)
        self.routed = 0

    async def tick(self) -> float | None:
        """Route one batch. Returns 0 while there may be more, else None: wait for a wake-up."""
        if self._full and self._taker is not None:
            await self._taker.wait_for_places()
        async with self._routing.batch(BATCH_MAX, payloads=self._taker is not None) as batch:
            self._full = batch.can_lease and len(batch.events) == BATCH_MAX
            if not batch.events:
                return self._look_again_s()
            self._looks = 0
            started_ns = time.time_ns()
            if batch.version != self._registry.version:
                await self._registry.refresh()
            if batch.version != self._registry.version:
                return 0.0  # the contracts changed between the two reads: take the batch again
            plans = [
                Plan(event.n, self._registry.targets(event), batch.due_at_ms.get(event.n, 0)) for event in batch.events
            ]
            await self._registry.mark_readers(batch.events)
            if await self._commit(batch, plans):
                self.routed += len(plans)
                targets = [len(plan.targets) for plan in plans]
                self._counters.routed(len(plans), sum(targets), targets.count(0))
                for reason, count in batch.dropped.items():
                    self._counters.ended("dropped", reason, count)
                self._tracing.routed(batch.events, started_ns)
        return 0.0

    def _look_again_s(self) -> float | None:
        """When to look for events that were committed without a wake-up; None: there can be none, or no more."""
        if not self._routing.misses_wakeups or self._looks == len(RECHECK_DELAYS_S):
            return None
        self._looks += 1
        return RECHECK_DELAYS_S[self._looks - 1]

    async def _commit(self, batch: RoutingBatch, plans: Sequence[Plan]) -> bool:
        offer = self._taker.offer(plans) if self._taker is not None and batch.can_lease else None
        if offer is None or self._taker is None:
            return await batch.commit(plans, self._owner)
        claims: Sequence[Claim] = ()
        try:
            done = await batch.commit(plans, self._owner, offer)
            claims = batch.claims
        finally:
            self._taker.take(offer, claims)
        return done
