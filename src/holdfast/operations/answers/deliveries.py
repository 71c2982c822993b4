"""Answers about deliveries and their attempts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from holdfast.domain.address import without_tokens
from holdfast.domain.event import iso_time
from holdfast.operations.answers.fields import DeliveryState, Time, extend, time_or_none
from holdfast.store.roles.operator import AttemptRow, DeliveryRow


@dataclass(frozen=True, slots=True)
class AttemptAnswer:
    """One attempt of a delivery. `detail` depends on the address, such as the status of an HTTP answer."""

    generation: int
    attempt: int
    started_at: Time
    ended_at: Time
    outcome: str
    error: str | None
    detail: Mapping[str, object] | None


@dataclass(frozen=True, slots=True)
class DeliveryAnswer:
    """One delivery. Secrets in `address` are masked. `waits_for` says why a pending delivery is not attempted."""

    id: int
    event_id: str
    event_type: str
    stream: str
    seq: int
    address: str
    contract_id: str | None
    state: DeliveryState
    reason: str | None
    attempts: int
    generation: int
    due_at: Time | None
    in_flight: bool
    waits_for: str | None
    survivor: int | None
    created_at: Time
    settled_at: Time | None
    last_error: str | None


@dataclass(frozen=True, slots=True)
class DeliveryWithHistory(DeliveryAnswer):
    """One delivery and its attempts, oldest first."""

    history: list[AttemptAnswer]


def attempt_answer(row: AttemptRow) -> AttemptAnswer:
    return AttemptAnswer(
        generation=row.generation,
        attempt=row.attempt,
        started_at=iso_time(row.started_at_ms),
        ended_at=iso_time(row.ended_at_ms),
        outcome=row.outcome,
        error=row.error,
        detail=row.detail,
    )


def delivery_answer(row: DeliveryRow, reasons: Mapping[int, str] | None = None) -> DeliveryAnswer:
    """`reasons`: by delivery id, why it waits (`operations.waiting`). They replace the store's own reason."""
    return DeliveryAnswer(
        id=row.id,
        event_id=row.event_id,
        event_type=row.event_type,
        stream=row.stream,
        seq=row.seq,
        address=without_tokens(row.address),
        contract_id=row.contract_id,
        state=row.state,
        reason=row.reason,
        attempts=row.attempts,
        generation=row.generation,
        due_at=time_or_none(row.due_at_ms),
        in_flight=row.leased,
        waits_for=(reasons or {}).get(row.id, row.waits_for),
        survivor=row.survivor,
        created_at=iso_time(row.created_at_ms),
        settled_at=time_or_none(row.settled_at_ms),
        last_error=row.last_error,
    )


def delivery_with_history(
    row: DeliveryRow, attempts: Iterable[AttemptRow], reasons: Mapping[int, str] | None = None
) -> DeliveryWithHistory:
    return extend(
        DeliveryWithHistory, delivery_answer(row, reasons), history=[attempt_answer(attempt) for attempt in attempts]
    )
