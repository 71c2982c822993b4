"""What goes wrong with deliveries, in the log: one line for each failed attempt, one for each dead letter."""

from __future__ import annotations

import logging

from holdfast.domain.address import without_tokens
from holdfast.domain.delivery import Transition
from holdfast.domain.states import State
from holdfast.egress.line import Held
from holdfast.logs import LogThrottle

log = logging.getLogger("holdfast.delivery")


class AttemptLog:
    """Lines about one address with one error are throttled: a receiver that is down must not fill the disk."""

    def __init__(self) -> None:
        self._throttle = LogThrottle(log)

    def ended(self, held: Held, after: Transition, now_ms: int) -> None:
        """An attempt that did not deliver, as it was settled."""
        claim = held.claim
        address = without_tokens(claim.delivery.address)
        what = f"{address}: event {claim.event.id} ({claim.event.type}), attempt {after.attempts}"
        most = held.terms.policy.attempts
        if most is not None:
            what += f" of {most}"
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
                "%s failed: %s. Delivery %d is a dead letter now (%s); see: holdfast dlq inspect",
                what,
                after.error,
                claim.delivery.id,
                after.reason,
                error=held.error,
            )

    def overdue(self, held: Held) -> None:
        """An attempt that is past its time and cannot be stopped."""
        claim = held.claim
        why = "A plain function cannot be stopped" if held.in_thread else "The handler ignores that it was cancelled"
        log.warning(
            "%s: event %s (%s) has run for longer than its timeout of %g s. %s: later events of its lane wait until it "
            "returns, and if it succeeds the event counts as delivered",
            claim.delivery.address,
            claim.event.id,
            claim.event.type,
            held.terms.timeout_s,
            why,
        )


def _seconds(value: float) -> str:
    return f"{value:.0f} s" if value >= 10 else f"{value:.1f} s"
