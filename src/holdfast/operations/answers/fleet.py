"""Answers about the fleet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from holdfast.operations.answers.fields import Format, Time

FLEET_STATES = ("ok", "alert", "unknown")


@dataclass(frozen=True, slots=True)
class FleetComponentAnswer:
    """One component. What is not known is null, never 0; `state` is unknown if the component cannot be reached.

    `last_error`: that of its newest dead letter, or why it cannot be reached. `alerts`: what exceeds its thresholds.
    """

    name: str
    url: str
    state: Annotated[str, Format(enum=FLEET_STATES)]
    dlq_count: int | None
    pending: int | None
    in_flight: int | None
    oldest_pending_seconds: int | None
    backend: str | None
    last_error: str | None
    alerts: list[str]
    checked_at: Time


@dataclass(frozen=True, slots=True)
class Fleet:
    """All configured components, and this daemon as the first one. `ok`: none of them needs attention."""

    ok: bool
    components: list[FleetComponentAnswer]
