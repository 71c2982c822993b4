"""History: what happened in each minute of the last day, and to each contract in each hour, for the web page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

MINUTES_MAX = 24 * 60
HOURS_MAX = 24
ALL_HOURS = 0
"""The hour under which the sum of all hours is stored."""


class Minute(NamedTuple):
    """One minute, counted from 1970. Counts of all processes together; the last two are the highest that were seen."""

    minute: int
    accepted: int
    delivered: int
    dead: int
    dropped: int
    pending: int = 0
    oldest_pending_s: int = 0


class ContractHour(NamedTuple):
    """What became of the deliveries of one contract in one hour, counted from 1970, as processes recorded it.

    `failed`: attempts that failed. `latency_ms`: the sum, over what was delivered, of the time since the event was
    accepted. The last two are when the last one was delivered and when the last attempt failed; 0: never.
    """

    contract: str
    hour: int
    delivered: int = 0
    dead: int = 0
    dropped: int = 0
    failed: int = 0
    latency_ms: int = 0
    delivered_at_ms: int = 0
    failed_at_ms: int = 0


class History(Protocol):
    """At most `MINUTES_MAX` minutes, and `HOURS_MAX` hours of each contract, are kept."""

    async def add(self, minute: Minute) -> None:
        """Add counts to a minute, and forget minutes that are too old."""

    async def since(self, minute: int) -> list[Minute]:
        """The minutes from this one on that have counts, oldest first."""

    async def add_contracts(self, counts: Sequence[ContractHour]) -> None:
        """Add counts to the hour of each contract and to its sum. A contract that does not exist is left out."""

    async def of_contracts(self, contracts: Sequence[str], hour: int) -> list[ContractHour]:
        """For each contract that has counts: the sum of all hours, then its hours from this one on, oldest first."""
