"""The input of the checker, as plain values: the records of a campaign, and the rows of a stopped store.

Nothing here depends on a database or a process, so both the simulation and real campaigns can fill it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from holdfast.domain.receipt import Head, Link
from holdfast.proof.kills.records import (
    Accepted,
    Answered,
    Disruption,
    Killed,
    Received,
    Record,
    Refused,
    RolledBack,
    Sent,
    Started,
)
from holdfast.store.roles.receipts import OperatorState


class EventRow(NamedTuple):
    id: str
    stream: str | None
    seq: int
    key: str | None
    digest: str


class DeliveryRow(NamedTuple):
    """`reachable`: it can be claimed, or waits in a lane whose head can."""

    id: int
    event: str
    contract: str
    lane: int | None
    state: str
    reason: str | None
    attempts: int
    generation: int
    settled_at_ms: int | None
    reachable: bool


class LeaseRow(NamedTuple):
    delivery: int
    owner: int


class Lease(NamedTuple):
    """A lease from claim to end, as recorded by triggers in the database.

    `end` is `settled`, `released`, `run out` (reclaimed after its expiry), `taken` (reclaimed before, because its
    holder was considered dead) or `held` (not ended).
    """

    delivery: int
    life: int
    claimed_ms: int
    ended_ms: int | None
    end: str
    token: int | None = None


class Settle(NamedTuple):
    """A transition in the receipts: its writer, its time, and the lease that ended in the same transaction, if any."""

    delivery: int
    life: int
    state: str
    at_ms: int
    lease: Lease | None


class Attempt(NamedTuple):
    """A row of the attempts table."""

    delivery: int
    attempt: int
    started_ms: int


@dataclass(frozen=True)
class Holders:
    """The history of all leases. Only on PostgreSQL, where several daemons work and triggers record it."""

    leases: Sequence[Lease]
    settles: Sequence[Settle]
    attempts: Sequence[Attempt]
    lease_ms: int
    clock_slack_ms: int = 5


class Ended(NamedTuple):
    """The end of a delivery as first seen after a kill."""

    state: str
    reason: str | None
    generation: int


@dataclass(frozen=True)
class StoreRows:
    events: Sequence[EventRow]
    deliveries: Sequence[DeliveryRow]
    leases: Sequence[LeaseRow]
    unrouted: frozenset[str]
    unmatched: frozenset[str]
    heads: Mapping[str, Head]
    links: Sequence[Link]
    operator: OperatorState | None = None


@dataclass(frozen=True)
class Evidence:
    """The records sorted by kind, and the store. `ended_before`: ends seen during the campaign.

    `business`: the keys that have a business row, of those published in one transaction with it. `rates`: contracts
    with a rate, in requests per second. `receipt_faults`: what `receipts verify --rows` found at the end.
    """

    sent: Mapping[str, Sent]
    accepted: Sequence[Accepted]
    refused: Sequence[Refused]
    received: Sequence[Received]
    answers: Mapping[int, Answered]
    started: Sequence[Started]
    killed: Sequence[Killed]
    store: StoreRows
    ordered: frozenset[str]
    contracts: frozenset[str]
    ended_before: Mapping[int, Ended] = field(default_factory=dict)
    rolled_back: frozenset[str] = frozenset()
    business: frozenset[str] | None = None
    disruptions: Sequence[Disruption] = ()
    rates: Mapping[str, float] = field(default_factory=dict)
    holders: Holders | None = None
    receipt_faults: Sequence[str] = ()

    @cached_property
    def receipts_of(self) -> dict[tuple[str, str], list[Received]]:
        """Every attempt that reached the sink, by (contract, event id), in order of arrival."""
        found: defaultdict[tuple[str, str], list[Received]] = defaultdict(list)
        for item in sorted(self.received, key=lambda item: item.at_ns):
            found[item.contract, item.id].append(item)
        return dict(found)

    @cached_property
    def unknown(self) -> frozenset[str]:
        """Keys that were sent and got no answer."""
        return frozenset(self.sent) - {item.key for item in self.accepted} - {item.key for item in self.refused}

    @cached_property
    def killed_ns(self) -> dict[int, int]:
        """Kill time of each killed life."""
        return {item.life: item.at_ns for item in self.killed}

    @cached_property
    def killed_ms(self) -> dict[int, int]:
        """Kill time on the wall clock, taken just before the kill."""
        return {item.life: item.at_ms for item in self.killed if item.at_ms is not None}

    @cached_property
    def lease_of(self) -> dict[int, Lease]:
        """The lease under which each request was sent, found by the token in the request.

        A request is missing here if a crash of the server lost the claim together with its trigger record.
        """
        rows = {row.id: (row.contract, row.event) for row in self.store.deliveries}
        leases = () if self.holders is None else self.holders.leases
        by_token = {(*rows[lease.delivery], lease.token): lease for lease in leases if lease.delivery in rows}
        named = ((item.n, by_token.get((item.contract, item.id, item.token))) for item in self.received)
        return {n: lease for n, lease in named if lease is not None}

    @cached_property
    def ended_ms(self) -> dict[int, int]:
        """When each delivery ended: as recorded by the triggers, else as in the store."""
        found = {row.id: row.settled_at_ms for row in self.store.deliveries if row.settled_at_ms is not None}
        recorded = () if self.holders is None else self.holders.settles
        return found | {settle.delivery: settle.at_ms for settle in recorded if settle.delivery in found}

    def answer_of(self, received: Received) -> str:
        answered = self.answers.get(received.n)
        return "none" if answered is None else answered.answer


class Violation(NamedTuple):
    """A broken promise: its name, the event or delivery concerned, and what was found."""

    promise: str
    subject: str
    detail: str


def gather(records: Iterable[Record], store: StoreRows, ordered: Iterable[str], contracts: Iterable[str],
           ended_before: Mapping[int, Ended], **more: Any) -> Evidence:  # fmt: skip
    """Sort the records of all files by kind."""
    lines = list(records)
    return Evidence(
        sent={item.key: item for item in lines if isinstance(item, Sent)},
        accepted=[item for item in lines if isinstance(item, Accepted)],
        refused=[item for item in lines if isinstance(item, Refused)],
        received=[item for item in lines if isinstance(item, Received)],
        answers={item.n: item for item in lines if isinstance(item, Answered)},
        started=[item for item in lines if isinstance(item, Started)],
        killed=[item for item in lines if isinstance(item, Killed)],
        rolled_back=frozenset(item.key for item in lines if isinstance(item, RolledBack)),
        disruptions=[item for item in lines if isinstance(item, Disruption)],
        store=store,
        ordered=frozenset(ordered),
        contracts=frozenset(contracts),
        ended_before=ended_before,
        **more,
    )
