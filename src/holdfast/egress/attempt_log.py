"""The log of failed attempts: one line for each, and one for each dead letter."""

from __future__ import annotations

import logging

from holdfast.domain.address import without_tokens
from holdfast.domain.delivery import Transition
from holdfast.domain.states import State
from holdfast.egress.held_claim import HeldClaim
from holdfast.logs import LogThrottle

log = logging.getLogger("holdfast.delivery")


class AttemptLog:
    """Lines with the same address and error are throttled: a receiver that is down must not fill the disk."""

    def __init__(self) -> None:
        self._throttle = LogThrottle(log)

    def ended(self, held: HeldClaim, after: Transition, now_ms: int) -> None:
        """Log an attempt that did not deliver: address, event, attempt, error, and what happens next."""
        claim = held.claim
        address = without_tokens(claim.delivery.address)
        what = f"{address}: event {claim.event.id} ({claim.event.type}), attempt {after.attempts}"
        limit = held.terms.policy.attempts
        if limit is not None:
            what += f" of {limit}"
        if after.state is State.PENDING and after.due_at_ms is not None:
            delay_s = max(0.0, (after.due_at_ms - now_ms) / 1000)
            self._throttle.log(
                logging.WARNING,
                (address, after.error),
                "%s failed: %s. Next attempt in %s",
                what,
                after.error,
                _seconds(delay_s),
                error=held.error,
            )
        elif after.state is State.DEAD:
            self._throttle.log(
                logging.ERROR,
                (address, after.reason, after.error),
                "%s failed: %s. Delivery %d is now a dead letter (%s); see: holdfast dlq inspect",
                what,
                after.error,
                claim.delivery.id,
                after.reason,
                error=held.error,
            )

    def overdue(self, held: HeldClaim) -> None:
        """Log an attempt that has passed its deadline and cannot be stopped."""
        claim = held.claim
        why = "A plain function cannot be cancelled" if held.in_thread else "The handler ignores its cancellation"
        log.warning(
            "%s: event %s (%s) has run longer than its timeout of %g s. %s: later events of its lane wait until it "
            "returns, and if it succeeds the event counts as delivered",
            claim.delivery.address,
            claim.event.id,
            claim.event.type,
            held.terms.timeout_s,
            why,
        )


def _seconds(value: float) -> str:
    return f"{value:.0f} s" if value >= 10 else f"{value:.1f} s"


def describe(error: BaseException) -> str:
    """An exception in one line: its type and message."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
