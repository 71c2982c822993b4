"""Operator: what a person inspects and repairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from holdfast.store.roles.owners import Owner
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
    detail: dict[str, Any] | None


class Operator(Protocol):
    """What a person inspects and repairs. Every repair writes a receipt on the owner's chain."""

    async def deliveries(self, wanted: DeliveryFilter, after: str | None, limit: int) -> Page[DeliveryRow]:
        """Deliveries, newest first."""

    async def delivery(self, id: int) -> DeliveryRow | None:
        """One delivery by its id."""

    async def attempts(self, id: int) -> list[AttemptRow]:
        """The recorded attempts of a delivery, oldest first."""

    async def count_dead(self, wanted: DeliveryFilter) -> dict[str, int]:
        """Matching dead letters, counted by contract or direct address."""

    async def dead_ids(self, wanted: DeliveryFilter, limit: int) -> list[int]:
        """Ids of matching dead letters, the oldest first: the order in which they are requeued."""

    async def count_ready(self, address: str) -> tuple[int, int]:
        """How many deliveries of an address wait in the ready queue, and how many are leased."""

    async def reprocess(self, owner: Owner, ids: Sequence[int], states: frozenset[str], actor: str) -> list[int]:
        """Requeue ended deliveries at the end of their lanes. Returns the ids that were in one of `states`."""

    async def discard(self, owner: Owner, ids: Sequence[int], actor: str) -> list[int]:
        """Drop dead letters. Returns the ids that were dead."""

    async def cancel(self, owner: Owner, ids: Sequence[int], actor: str) -> list[int]:
        """Drop pending deliveries, leased ones included. Returns the ids that were pending."""

    async def make_due(self, ids: Sequence[int]) -> list[int]:
        """Make waiting deliveries due now. Returns the ids that were due later."""

    async def pause(self, scope: str, name: str) -> bool:
        """Pause deliveries of a contract, address or lane; pending ones stay queued. False: it was paused already."""

    async def resume(self, scope: str, name: str) -> bool:
        """End a pause. False: there was none."""

    async def pauses(self) -> list[tuple[str, str, int]]:
        """All pauses: scope, name, and when it began in milliseconds."""

    async def figures(self) -> dict[str, Any]:
        """The counts that `status` shows."""
