"""Routing: events become deliveries, and the router's position moves, in one transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import NamedTuple, Protocol

from holdfast.domain.delivery import Claim
from holdfast.domain.event import Event
from holdfast.store.roles.owners import Actor, Owner


class RouteTarget(NamedTuple):
    """Where the router sends one event: a contract's queue or a direct address, perhaps in a lane."""

    queue: int | None
    address: str
    kind: str
    lane: str | None
    burst: str | None = None
    contract_id: str | None = None


class Plan(NamedTuple):
    """The router's decision about one event. No targets: no contract matched."""

    n: int
    targets: tuple[RouteTarget, ...]
    due_at_ms: int


class LeaseOffer(NamedTuple):
    """How many new deliveries of each queue the routing process can begin at once, and how long it may hold them.

    `asked_ms`: when the offer was made, by the process's own clock since boot. The leases begin no earlier.
    """

    owner: int
    places: Mapping[int, int]
    lease_ms: Mapping[int, int]
    asked_ms: int


class RoutingBatch(Protocol):
    """Events in stream order. No other process routes the same stream meanwhile.

    `can_lease`: `commit` may lease new deliveries to this process, so an offer is worth making. `claims` are those that
    it leased. `dropped`: how many deliveries `commit` dropped, by reason.
    """

    version: int
    events: Sequence[Event]
    due_at_ms: Mapping[int, int]
    can_lease: bool
    claims: Sequence[Claim]
    dropped: Mapping[str, int]

    async def commit(self, plans: Sequence[Plan], owner: Owner | None = None, offer: LeaseOffer | None = None) -> bool:
        """Insert the deliveries and advance the router, in one transaction. False: the contracts changed, plan again.

        Deliveries that a new one replaces, or that exceed a full lane, are dropped in the same transaction, with a
        receipt on the owner's chain. Without an owner nothing is dropped.

        With an offer, a store may lease new deliveries in the same transaction (`claims`), which costs less than to
        claim them later.
        """


class Routing(Protocol):
    """The router's view of the store.

    `misses_wakeups`: a publisher sends no wake-up while other events wait for the router. The router may route those
    before the publisher has committed, so it should look again a few times.
    """

    @property
    def misses_wakeups(self) -> bool: ...

    def batch(self, limit: int, payloads: bool = False) -> AbstractAsyncContextManager[RoutingBatch]:
        """Take up to `limit` events that wait for the router. Empty where another process is routing.

        `payloads`: read payloads too, as far as new deliveries may be leased in the same transaction.
        """

    async def backlog(self) -> int:
        """How many events wait for the router."""

    async def deliver(self, plans: Sequence[Plan], *, by: Actor | None = None) -> int:
        """Create deliveries of events that were routed before. Existing ones are not repeated. `by`: with a receipt.

        Returns for how many plans the event was found; an event that still waits for the router is left out.
        """
