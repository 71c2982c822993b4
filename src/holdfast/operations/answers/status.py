"""The answer of `status`."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.operations.answers.fields import Time
from holdfast.operations.answers.maintenance import PauseScope


@dataclass(frozen=True, slots=True)
class PausedItem:
    """A contract, address or lane whose deliveries are paused."""

    scope: PauseScope
    name: str


@dataclass(frozen=True, slots=True)
class MisconfiguredContract:
    """A contract whose deliveries wait because something it names is missing."""

    contract_id: str
    why: str


@dataclass(frozen=True, slots=True)
class Status:
    """Daemon health and queue counts. What cannot be known is null, never 0.

    `not_accepting`: why new events are refused, null if they are not. `unmatched`: events that matched no contract.
    `unrouted`: events that wait for the router. `pending`: deliveries that are not settled. `spooled`: files in the
    spool. `hooks`: agent hooks that were not appended, since the daemon started. `duties`: the state of each
    background duty.
    """

    version: str
    store: str
    healthy: bool
    not_accepting: str | None
    uptime_seconds: float
    events: int
    unmatched: int
    streams: int | None
    unrouted: int
    pending: int
    in_flight: int
    lanes: int
    dead: int
    spooled: int
    hooks: dict[str, int]
    oldest_pending_seconds: int | None
    next_due_at: Time | None
    paused: list[PausedItem]
    misconfigured: list[MisconfiguredContract]
    breakers: list[str]
    duties: dict[str, str]
    notes: list[str]
