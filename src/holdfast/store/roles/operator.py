"""Operator: what a person inspects and repairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from holdfast.domain.json_value import JsonObject
from holdfast.store.roles.owners import Actor, Owner
from holdfast.store.roles.page import Page


@dataclass(frozen=True, slots=True)
class DeliveryFilter:
    """Every given field must match."""

    state: str | None = None
    reason: str | None = None
    contract: str | None = None
    address: str | None = None
    stream: str | None = None
    event: str | None = None


class DeliveryRow(NamedTuple):
    """A delivery as an operator sees it. `waits_for`: why a pending one is not attempted now."""

    id: int
    event_id: str
    event_type: str
    stream: str
    seq: int
    address: str
    contract_id: str | None
    state: str
    reason: str | None
    attempts: int
    generation: int
    due_at_ms: int | None
    leased: bool
    starts: int
    survivor: int | None
    created_at_ms: int
    settled_at_ms: int | None
    last_error: str | None
    waits_for: str | None


class AttemptRow(NamedTuple):
    """One attempt of a delivery. `generation` grows each time the delivery is requeued."""

    generation: int
    attempt: int
    started_at_ms: int
    ended_at_ms: int
    outcome: str
    error: str | None
    detail: JsonObject | None


class DeadGroup(NamedTuple):
    """How many dead letters of one queue have one reason. `contract`: None for a direct address."""

    contract: str | None
    address: str
    reason: str
    letters: int

    @property
    def queue(self) -> str:
        return self.contract or self.address


class StuckLane(NamedTuple):
    """A lane whose head has failed while others wait behind it. `since_ms`: when the head was created."""

    lane: str
    waiting: int
    delivery: int
    event_id: str
    attempts: int
    error: str | None
    since_ms: int


class QueueBacklog(NamedTuple):
    """What waits for one contract or direct address. `pending`: None if counting it now would take too long.

    `oldest_ms`: when the oldest delivery was created that can be claimed or is in flight; None if there is none.
    """

    queue: str
    contract: str | None
    pending: int | None
    in_flight: int
    oldest_ms: int | None


@dataclass(frozen=True, slots=True)
class StoreFigures:
    """The counts that `status` shows. `streams` is None if counting them now would take too long.

    `unmatched`: events that matched no contract. `unrouted`: events that wait for the router. `pending`: deliveries
    that are not settled, `in_flight`: those of them that are leased.
    """

    events: int
    unmatched: int
    streams: int | None
    unrouted: int
    pending: int
    in_flight: int
    lanes: int
    dead_by_reason: Mapping[str, int]
    next_due_ms: int | None
    oldest_pending_ms: int | None

    @property
    def dead(self) -> int:
        return sum(self.dead_by_reason.values())


class Operator(Protocol):
    """What a person inspects and repairs. Every repair writes a receipt on the owner's chain."""

    async def deliveries(self, wanted: DeliveryFilter, after: str | None, limit: int) -> Page[DeliveryRow]:
        """Deliveries, newest first."""

    async def delivery(self, id: int) -> DeliveryRow | None:
        """One delivery by its id."""

    async def states_of(self, events: Sequence[str]) -> dict[str, dict[str, int]]:
        """How many deliveries of each event, by its id, are in each state."""

    async def attempts(self, id: int) -> list[AttemptRow]:
        """The recorded attempts of a delivery, oldest first."""

    async def count_dead(self, wanted: DeliveryFilter) -> dict[str, int]:
        """Matching dead letters, counted by contract or direct address."""

    async def count_pending(self, limit: int) -> dict[str, int]:
        """Pending deliveries, counted by contract or direct address: the `limit` queues that have the most."""

    async def dead_groups(self, wanted: DeliveryFilter) -> list[DeadGroup]:
        """Matching dead letters, counted by contract or direct address and by reason."""

    async def dead_ids(self, wanted: DeliveryFilter, limit: int) -> list[int]:
        """Ids of matching dead letters, the oldest first: the order in which they are requeued."""

    async def count_ready(self, address: str) -> tuple[int, int]:
        """How many deliveries of an address wait in the ready queue, and how many are leased."""

    async def backlog(self, queue: str) -> QueueBacklog | None:
        """What waits for a contract or a direct address; None if there is no such queue."""

    async def reprocess(self, owner: Owner, ids: Sequence[int], states: frozenset[str], actor: str) -> list[int]:
        """Requeue ended deliveries at the end of their lanes. Returns the ids that were in one of `states`."""

    async def discard(self, owner: Owner, ids: Sequence[int], actor: str) -> list[int]:
        """Drop dead letters. Returns the ids that were dead."""

    async def cancel(self, owner: Owner, ids: Sequence[int], actor: str) -> list[int]:
        """Drop pending deliveries, leased ones included. Returns the ids that were pending."""

    async def expire(self, owner: Owner, ids: Sequence[int], actor: str) -> list[int]:
        """Drop pending deliveries as expired, leased ones included. Returns the ids that were pending."""

    async def count_lane(self, lane: str) -> int:
        """How many deliveries of a lane have not ended."""

    async def stuck_lanes(self, limit: int) -> list[StuckLane]:
        """Lanes whose head has failed at least once while others wait behind it: of the longest 200 lanes."""

    async def first_in_lane(self, lane: str, limit: int) -> list[tuple[int, str]]:
        """The next deliveries of a lane in their order, each with the id of its event."""

    async def make_due(self, ids: Sequence[int], *, by: Actor | None = None) -> list[int]:
        """Make waiting deliveries due now. Returns the ids that were due later."""

    async def pause(self, scope: str, name: str, *, by: Actor | None = None) -> bool:
        """Pause deliveries of a contract, address or lane; pending ones stay queued. False: it was paused already."""

    async def resume(self, scope: str, name: str, *, by: Actor | None = None) -> bool:
        """End a pause. False: there was none."""

    async def pauses(self) -> list[tuple[str, str, int]]:
        """All pauses: scope, name, and when it began in milliseconds."""

    async def figures(self) -> StoreFigures:
        """The counts that `status` shows."""
