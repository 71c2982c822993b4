"""Routing: events become deliveries, and the router's position moves, in one transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import NamedTuple, Protocol

from holdfast.domain.event import Event
from holdfast.store.roles.owners import Owner


class RouteTarget(NamedTuple):
    """Where the router sends one event: a contract's queue or a direct address, perhaps in a lane."""

    queue: int | None
    address: str
    kind: str
    lane: str | None
    burst: str | None = None


class Plan(NamedTuple):
    """The router's decision about one event. No targets: no contract matched."""

    n: int
    targets: tuple[RouteTarget, ...]
    due_at_ms: int


class RoutingBatch(Protocol):
    """Events in stream order. No other process routes the same stream meanwhile."""

    version: int
    events: Sequence[Event]
    due_at_ms: Mapping[int, int]

    async def commit(self, plans: Sequence[Plan], owner: Owner | None = None) -> bool:
        """Insert the deliveries and advance the router, in one transaction. False: the contracts changed, plan again.

        Deliveries that a new one replaces, or that exceed a full lane, are dropped in the same transaction, with a
        receipt on the owner's chain. Without an owner nothing is dropped.
        """


class Routing(Protocol):
    """The router's view of the store."""

    def batch(self, limit: int) -> AbstractAsyncContextManager[RoutingBatch]:
        """Take up to `limit` events that wait for the router. Empty where another process is routing."""

    async def backlog(self) -> int:
        """How many events wait for the router."""
