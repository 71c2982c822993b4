"""The answer of a ping."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.operations.answers.deliveries import AttemptAnswer


@dataclass(frozen=True, slots=True)
class PingedContract:
    """What came of a sample event that was sent through one contract.

    `error`: why it was not delivered, null if it was. `attempt`: the one attempt, for a URL with the status and the
    beginning of the response; null if there was none in time. A ping that was not delivered is not tried again.
    """

    contract_id: str
    address: str
    event_id: str
    delivery_id: int | None
    delivered: bool
    error: str | None
    attempt: AttemptAnswer | None
