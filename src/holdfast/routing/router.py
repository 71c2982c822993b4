"""The router: creates deliveries for events, in stream order, in one transaction with its own position."""

from __future__ import annotations

from holdfast.routing.registry import Registry
from holdfast.store.roles.deliveries import BATCH_MAX
from holdfast.store.roles.owners import Owner
from holdfast.store.roles.routing import Plan, Routing


class Router:
    name = "router"

    def __init__(self, routing: Routing, registry: Registry, owner: Owner | None = None) -> None:
        self._routing, self._registry, self._owner = routing, registry, owner
        self.routed = 0

    async def tick(self) -> float | None:
        """Route one batch. Returns 0 while there may be more, else None: wait for a wake-up."""
        async with self._routing.batch(BATCH_MAX) as batch:
            if not batch.events:
                return None
            if batch.version != self._registry.version:
                await self._registry.refresh()
            if batch.version != self._registry.version:
                return 0.0  # the contracts changed between the two reads: take the batch again
            plans = [
                Plan(event.n, self._registry.targets(event), batch.due_at_ms.get(event.n, 0)) for event in batch.events
            ]
            if await batch.commit(plans, self._owner):
                self.routed += len(plans)
        return 0.0
