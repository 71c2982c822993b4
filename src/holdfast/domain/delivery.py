"""Delivery: bring one event to one address. `settle`, a pure function, decides every change of its state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, assert_never

from holdfast.domain.event import Event, NewEvent
from holdfast.domain.json_value import Json
from holdfast.domain.ping import is_ping
from holdfast.domain.retry import Policy
from holdfast.domain.session import SessionChange
from holdfast.domain.states import REASONS_BY, Reason, State

STARTS_MAX = 5
SUSPECT_STARTS = 2
ERROR_MAX = 2000


Effect = NewEvent | SessionChange
"""Applied in the transaction that settles a delivery: an event to append, or a change of a session's row."""


class Delivery(NamedTuple):
    """The delivery as a deliverer and a handler see it. `attempts` are those before this one."""

    id: int
    address: str
    contract_id: str | None
    attempts: int
    generation: int
    handed: bool = False


class Claim(NamedTuple):
    """A leased delivery. `token` identifies the lease; `starts` counts attempts that began and never ended."""

    delivery: Delivery
    event: Event
    queue: int
    token: int
    starts: int


@dataclass(frozen=True, slots=True)
class Delivered:
    """The receiver has the event. Effects are applied in the transaction that settles the delivery."""

    effects: Sequence[Effect] = ()
    detail: dict[str, Json] | None = None


@dataclass(frozen=True, slots=True)
class Handed:
    """The event was handed over and waits for the receiver's confirmation. Check again after this time."""

    check_after_s: float


@dataclass(frozen=True, slots=True)
class Retry:
    """The attempt failed. `after_s` is the delay that the receiver asked for, such as `Retry-After`."""

    error: str
    after_s: float | None = None
    detail: dict[str, Json] | None = None


@dataclass(frozen=True, slots=True)
class Dead:
    """The delivery can never succeed."""

    reason: Reason
    error: str
    detail: dict[str, Json] | None = None


@dataclass(frozen=True, slots=True)
class Dropped:
    """The delivery is no longer needed. `survivor` is the delivery that replaces it, if there is one."""

    reason: Reason
    survivor: int | None = None


Outcome = Delivered | Handed | Retry | Dead | Dropped


class Transition(NamedTuple):
    """The next state of a delivery. The store writes it only if the lease's token still matches."""

    state: State
    attempts: int
    reason: Reason | None = None
    due_at_ms: int | None = None
    handed_until_ms: int | None = None
    error: str | None = None
    survivor: int | None = None


class Settlement(NamedTuple):
    """A transition, the claim that entitles to it, and the effects for the same transaction."""

    claim: Claim
    transition: Transition
    effects: Sequence[Effect] = ()
    detail: dict[str, Json] | None = None
    started_at_ms: int = 0
    outcome: str = ""

    @property
    def events(self) -> list[NewEvent]:
        return [effect for effect in self.effects if isinstance(effect, NewEvent)]

    @property
    def changes(self) -> list[SessionChange]:
        return [effect for effect in self.effects if isinstance(effect, SessionChange)]


def settle(attempts: int, outcome: Outcome, policy: Policy, now_ms: int, chance: float) -> Transition:
    """The next state of a delivery after `attempts` earlier attempts and one more with this outcome.

    `chance` is a random number in [0, 1) for the jitter.

    >>> from holdfast.domain.retry import POLICIES
    >>> settle(0, Retry("503"), POLICIES["webhook"], now_ms=1000, chance=0.0)[:4]
    (<State.PENDING: 'pending'>, 1, None, 2000)
    """
    total = attempts + 1
    match outcome:
        case Delivered():
            return Transition(State.DELIVERED, total)
        case Handed(check_after_s):
            return Transition(State.PENDING, total, handed_until_ms=now_ms + round(check_after_s * 1000))
        case Retry(error, after_s):
            if policy.exhausted(total):
                return Transition(State.DEAD, total, Reason.EXHAUSTED, error=clean_error(error))
            due = now_ms + round(policy.delay_s(total, chance, after_s) * 1000)
            return Transition(State.PENDING, total, due_at_ms=due, error=clean_error(error))
        case Dead(reason, error):
            _check_reason("Dead", reason)
            return Transition(State.DEAD, total, reason, error=clean_error(error))
        case Dropped(reason, survivor):
            _check_reason("Dropped", reason)
            return Transition(State.DROPPED, attempts, reason, survivor=survivor)
        case _:
            assert_never(outcome)


def settlement_of(
    claim: Claim, outcome: Outcome, policy: Policy, now_ms: int, chance: float, started_at_ms: int
) -> Settlement:
    """The settlement of a claim whose attempt began at `started_at_ms` and has ended with this outcome."""
    if isinstance(outcome, Retry) and is_ping(claim.event.source, claim.event.type):
        policy = replace(policy, attempts=1)
    return Settlement(
        claim,
        settle(claim.delivery.attempts, outcome, policy, now_ms, chance),
        outcome.effects if isinstance(outcome, Delivered) else (),
        outcome.detail if isinstance(outcome, Delivered | Retry | Dead) else None,
        started_at_ms,
        type(outcome).__name__.lower(),
    )


def crash_loop(claim: Claim) -> Dead | None:
    """The end of a claim that was started too often without ending; None if it may be attempted."""
    if claim.starts <= STARTS_MAX:
        return None
    return Dead(
        Reason.CRASH_LOOP, f"started {STARTS_MAX} times without ending: the attempt may have killed its process"
    )


def clean_error(error: str) -> str:
    """An error text for storage and display: one line of at most 2,000 characters, without control characters."""
    text = "".join(char if char.isprintable() else " " for char in error[: ERROR_MAX * 2])
    return text[:ERROR_MAX].strip() or "failed without a message"


def _check_reason(trigger: str, reason: Reason) -> None:
    if reason not in REASONS_BY[trigger]:
        raise ValueError(f"{reason} is not a reason of the outcome {trigger}")
