"""Answers of `explain`: where an event went, and why contracts did not match it."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.operations.answers.deliveries import DeliveryWithHistory
from holdfast.operations.answers.events import EventAnswer
from holdfast.operations.answers.fields import DeliveryState, HexDigest, Time


@dataclass(frozen=True, slots=True)
class DeliveryReceipt:
    """One state change of a delivery, and the receipt link that records it."""

    chain: str
    seq: int
    h_self: HexDigest
    at: Time
    generation: int
    state: DeliveryState
    reason: str | None
    actor: str | None


@dataclass(frozen=True, slots=True)
class ExplainedDelivery(DeliveryWithHistory):
    """A delivery with its attempts and its receipts, oldest first."""

    receipts: list[DeliveryReceipt]


@dataclass(frozen=True, slots=True)
class MissedContract:
    """A contract that does not match an event: how many of its criteria failed, and one sentence for each."""

    contract_id: str
    failed: int
    why: list[str]


@dataclass(frozen=True, slots=True)
class MissGroup:
    """Events that failed for the same reason. `alone`: for how many of them it was the only reason."""

    why: str
    events: int
    alone: int
    example: str


@dataclass(frozen=True, slots=True)
class EventExplanation:
    """Why an event went where it went. Each list is cut; `…_left_off` says how many entries are not shown.

    `wanted_now`: contracts that match the event as they are now. `missed`: those that do not, nearest first.
    """

    event: EventAnswer
    verdict: str
    deliveries: list[ExplainedDelivery]
    deliveries_left_off: int
    wanted_now: list[str]
    wanted_now_left_off: int
    missed: list[MissedContract]
    missed_left_off: int
