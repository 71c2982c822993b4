"""Components of a fleet: what is known about each, and when that is an alert. Unknown is None, never 0."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class FleetComponent:
    """A component that answers the three dead letter verbs over REST. A threshold of None is disabled."""

    name: str
    url: str
    token_env: str | None = None
    token: str | None = field(default=None, repr=False)
    dead_above: int | None = 0
    pending_above: int | None = None
    oldest_above_s: int | None = 3600


class ComponentFigures(NamedTuple):
    """What one component reported. `error`: why it could not be reached; then nothing else is known."""

    dlq_count: int | None = None
    pending: int | None = None
    in_flight: int | None = None
    oldest_pending_s: int | None = None
    backend: str | None = None
    last_error: str | None = None
    error: str | None = None


def alerts_of(component: FleetComponent, figures: ComponentFigures) -> list[str]:
    """Why a component needs attention, as sentences; empty: it does not.

    >>> alerts_of(FleetComponent("mirror", "https://m.example"), ComponentFigures(dlq_count=2))
    ['2 dead letters, more than 0']
    """
    if figures.error is not None:
        return [f"it cannot be reached: {figures.error}"]
    limits = (
        (figures.dlq_count, component.dead_above, "dead letters"),
        (figures.pending, component.pending_above, "pending deliveries"),
        (figures.oldest_pending_s, component.oldest_above_s, "seconds since the oldest pending delivery"),
    )
    return [
        f"{value:,} {what}, more than {limit:,}"
        for value, limit, what in limits
        if value is not None and limit is not None and value > limit
    ]
