"""Answers about dead letters."""

from __future__ import annotations

from dataclasses import dataclass, field

from holdfast.operations.answers.deliveries import DeliveryWithHistory
from holdfast.operations.answers.fields import OMITTED_IF_NONE


@dataclass(frozen=True, slots=True)
class DeadLetterGroup:
    """Dead letters of one contract, or of one direct address, with one reason."""

    contract_id: str | None
    address: str
    reason: str
    count: int


@dataclass(frozen=True, slots=True)
class DeadLetterCount:
    """Dead letters in all and by queue, largest queues first, and the largest groups of one queue and one reason.

    `by_queue_left_off` is there only if there are more queues than listed.
    """

    count: int
    by_queue: dict[str, int]
    groups: list[DeadLetterGroup]
    by_queue_left_off: int | None = field(default=None, metadata=OMITTED_IF_NONE)


@dataclass(frozen=True, slots=True)
class DeadLetter(DeliveryWithHistory):
    """A dead delivery with its attempts and its event's payload; null if the event has been pruned.

    Secrets in the payload are masked. `payload_cut`: `payload` is the beginning of its JSON text; the event has it all.
    """

    payload: object
    payload_cut: bool | None = field(default=None, metadata=OMITTED_IF_NONE)


@dataclass(frozen=True, slots=True)
class ReprocessedDeadLetters:
    """Requeued dead letters. `remaining`: how many more the filter matches. `dry_run`: nothing was changed."""

    reprocessed: int
    ids: list[int]
    remaining: int
    dry_run: bool | None = field(default=None, metadata=OMITTED_IF_NONE)


@dataclass(frozen=True, slots=True)
class DiscardedDeadLetters:
    """Discarded dead letters. `remaining`: how many more the filter matches. `dry_run`: nothing was changed."""

    discarded: int
    ids: list[int]
    remaining: int
    dry_run: bool | None = field(default=None, metadata=OMITTED_IF_NONE)
