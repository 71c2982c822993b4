"""Delivery: one duty, to bring one event to one address. `settle` is the whole of its life as a pure function."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, assert_never

from holdfast.domain.event import Event, NewEvent
from holdfast.domain.retry import Policy
from holdfast.domain.session import SessionChange
from holdfast.domain.states import REASONS_BY, Reason, State

STARTS_MAX = 5
SUSPECT_STARTS = 2
ERROR_MAX = 2000


Effect = NewEvent | SessionChange
"""What goes into the transaction that settles a delivery: an event to append, or a change of the sessions' rows."""


class Delivery(NamedTuple):
    """What a deliverer and a handler may know about the duty they carry out."""

    id: int
    address: str
    contract_id: str | None
    attempts: int
    generation: int
    handed: bool = False


class Claim(NamedTuple):
    """A delivery in somebody's hands: the event, the lease's token, and how often it was started without an end."""

    delivery: Delivery
    event: Event
    queue: int
    token: int
    starts: int


@dataclass(frozen=True, slots=True)
class Delivered:
    """It arrived. Effects are applied in the transaction that settles it."""

    effects: Sequence[Effect] = ()
    detail: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Handed:
    """It was given over; the receiver's own confirmation is still to come. Look again after this time."""

    check_after_s: float


@dataclass(frozen=True, slots=True)
class Retry:
    """It failed this time. `after_s` is the receiver's own wish, such as `Retry-After`."""

    error: str
    after_s: float | None = None
    detail: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Dead:
    """It can never succeed."""

    reason: Reason
    error: str
    detail: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Dropped:
    """It is no longer wanted. `survivor` is the delivery that stands in for it, where one does."""

    reason: Reason
    survivor: int | None = None


Outcome = Delivered | Handed | Retry | Dead | Dropped


class Transition(NamedTuple):
    """The next state of a delivery, as data: what a store writes, fenced by the lease's token."""

    state: State
    attempts: int
    reason: Reason | None = None
    due_at_ms: int | None = None
    handed_until_ms: int | None = None
    error: str | None = None
    survivor: int | None = None


class Settlement(NamedTuple):
    """A transition with its proof of ownership, and what goes into the same transaction."""

    claim: Claim
    transition: Transition
    effects: Sequence[Effect] = ()
    detail: dict[str, Any] | None = None
    started_at_ms: int = 0
    outcome: str = ""

    @property
    def events(self) -> list[NewEvent]:
        return [effect for effect in self.effects if isinstance(effect, NewEvent)]

    @property
    def changes(self) -> list[SessionChange]:
        return [effect for effect in self.effects if isinstance(effect, SessionChange)]


def settle(attempts: int, outcome: Outcome, policy: Policy, now_ms: int, chance: float) -> Transition:
    """What becomes of a delivery with `attempts` attempts behind it when one more ended like this.

    >>> from holdfast.domain.retry import POLICIES
    >>> settle(0, Retry("503"), POLICIES["webhook"], now_ms=1000, chance=0.0)[:4]
    (<State.PENDING: 'pending'>, 1, None, 2000)
    """
    made = attempts + 1
    match outcome:
        case Delivered():
            return Transition(State.DELIVERED, made)
        case Handed(check_after_s):
            return Transition(State.PENDING, made, handed_until_ms=now_ms + round(check_after_s * 1000))
        case Retry(error, after_s):
            if policy.exhausted(made):
                return Transition(State.DEAD, made, Reason.EXHAUSTED, error=clean_error(error))
            due = now_ms + round(policy.delay_s(made, chance, after_s) * 1000)
            return Transition(State.PENDING, made, due_at_ms=due, error=clean_error(error))
        case Dead(reason, error):
            _check_reason("Dead", reason)
            return Transition(State.DEAD, made, reason, error=clean_error(error))
        case Dropped(reason, survivor):
            _check_reason("Dropped", reason)
            return Transition(State.DROPPED, attempts, reason, survivor=survivor)
        case _:
            assert_never(outcome)


def clean_error(error: str) -> str:
    """An error fit to be stored and shown: bounded, one line, no control characters."""
    text = "".join(char if char.isprintable() else " " for char in error[: ERROR_MAX * 2])
    return text[:ERROR_MAX].strip() or "failed without a message"


def _check_reason(trigger: str, reason: Reason) -> None:
    if reason not in REASONS_BY[trigger]:
        raise ValueError(f"{reason} is no reason for the outcome {trigger}")
