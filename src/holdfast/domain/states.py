"""The one table of delivery states, reasons and transitions: source for the code, the docs and the tests."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class State(StrEnum):
    PENDING = "pending"
    DELIVERED = "delivered"
    DEAD = "dead"
    DROPPED = "dropped"


class Reason(StrEnum):
    """Why a delivery ended without being delivered."""

    REJECTED = "rejected"
    EXHAUSTED = "exhausted"
    CRASH_LOOP = "crash_loop"
    NO_HANDLER = "no_handler"
    NO_SESSION = "no_session"
    AMBIGUOUS = "ambiguous"
    UNCONFIRMED = "unconfirmed"
    COALESCED = "coalesced"
    EVICTED = "evicted"
    EXPIRED = "expired"
    CANCELLED = "cancelled"
    CONTRACT_REMOVED = "contract_removed"
    SENDER_REFUSED = "sender_refused"
    LOOP = "loop"
    DISCARDED = "discarded"


class StateRule(NamedTuple):
    """One row of the table."""

    before: State
    trigger: str
    after: State
    reasons: tuple[Reason, ...]
    meaning: str


STATE_RULES: tuple[StateRule, ...] = (
    StateRule(State.PENDING, "Delivered", State.DELIVERED, (), "the receiver has it"),
    StateRule(State.PENDING, "Handed", State.PENDING, (), "handed over; waits for the receiver's confirmation"),
    StateRule(State.PENDING, "Retry", State.PENDING, (), "failed; due again later"),
    StateRule(State.PENDING, "Retry", State.DEAD, (Reason.EXHAUSTED,), "failed as often as the policy allows"),
    StateRule(
        State.PENDING,
        "Dead",
        State.DEAD,
        (
            Reason.REJECTED,
            Reason.CRASH_LOOP,
            Reason.NO_HANDLER,
            Reason.NO_SESSION,
            Reason.AMBIGUOUS,
            Reason.UNCONFIRMED,
        ),
        "rejected for good, crashed its process five times, or its handler does not exist; for a message: its session "
        "does not exist, several sessions are meant, or the agent never confirmed it",
    ),
    StateRule(
        State.PENDING,
        "Dropped",
        State.DROPPED,
        (
            Reason.COALESCED,
            Reason.EVICTED,
            Reason.EXPIRED,
            Reason.CANCELLED,
            Reason.CONTRACT_REMOVED,
            Reason.SENDER_REFUSED,
            Reason.LOOP,
        ),
        "no longer needed; the reason and, if there is one, the survivor are recorded",
    ),
    StateRule(State.DEAD, "operator: reprocess", State.PENDING, (), "requeued: next generation, end of its lane"),
    StateRule(State.DEAD, "operator: discard", State.DROPPED, (Reason.DISCARDED,), "discarded by an operator"),
    StateRule(State.DELIVERED, "operator: retry", State.PENDING, (), "sent again on request: next generation"),
    StateRule(State.DROPPED, "operator: retry", State.PENDING, (), "requeued on request: next generation"),
)

REASONS_OF: dict[State, frozenset[Reason]] = {
    state: frozenset(reason for rule in STATE_RULES if rule.after is state for reason in rule.reasons)
    for state in State
}

REASONS_BY: dict[str, frozenset[Reason]] = {
    trigger: frozenset(reason for rule in STATE_RULES if rule.trigger == trigger for reason in rule.reasons)
    for trigger in {rule.trigger for rule in STATE_RULES}
}
