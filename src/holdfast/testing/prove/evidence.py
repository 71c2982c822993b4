"""Everything the checker looks at, as plain values: the outside books, and the rows of a store at rest.

Nothing here knows a database or a process, so a simulation fills it as well as a real campaign does.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from holdfast.domain.receipt import Head, Link
from holdfast.testing.prove.records import (
    Accepted,
    Answered,
    Killed,
    Received,
    Record,
    Refused,
    Sent,
    Started,
    Struck,
    Undone,
)


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
    """A lease from beginning to end, as the database itself wrote it down: who took it, and how he lost it.

    `end` is `settled`, `released` (given back), `run out` (taken, its time was over), `taken` (before its time: its
    holder was thought dead) or `held` (to this day).
    """

    delivery: int
    life: int
    claimed_ms: int
    ended_ms: int | None
    end: str


class Settle(NamedTuple):
    """A transition in the book: who wrote it, when, and the lease that ended in the same transaction, if any did."""

    delivery: int
    life: int
    state: str
    at_ms: int
    lease: Lease | None


class Attempt(NamedTuple):
    """A line of the attempts' history."""

    delivery: int
    attempt: int
    started_ms: int


@dataclass(frozen=True)
class Holders:
    """Who held what when: only where the store lets several daemons work, and was told to keep this ledger."""

    leases: Sequence[Lease]
    settles: Sequence[Settle]
    attempts: Sequence[Attempt]
    lease_ms: int
    clock_slack_ms: int = 5


class Ended(NamedTuple):
    """The end of a delivery as it was first seen after some kill."""

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


@dataclass(frozen=True)
class Evidence:
    """The books sorted by kind, and the store. `ended_before`: ends that were seen on the way.

    `business`: the keys whose business row is there, of those that were published in a transaction together with one.
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
    undone: frozenset[str] = frozenset()
    business: frozenset[str] | None = None
    struck: Sequence[Struck] = ()
    holders: Holders | None = None

    @cached_property
    def receipts_of(self) -> dict[tuple[str, str], list[Received]]:
        """Every attempt that reached the sink, by (contract, event id), in order of arrival."""
        found: defaultdict[tuple[str, str], list[Received]] = defaultdict(list)
        for item in sorted(self.received, key=lambda item: item.at_ns):
            found[item.contract, item.id].append(item)
        return dict(found)

    @cached_property
    def unknown(self) -> frozenset[str]:
        """Keys that were sent and never answered."""
        return frozenset(self.sent) - {item.key for item in self.accepted} - {item.key for item in self.refused}

    @cached_property
    def killed_ns(self) -> dict[int, int]:
        """When each life that was killed was killed."""
        return {item.life: item.at_ns for item in self.killed}

    @cached_property
    def leases_of(self) -> dict[tuple[str, str, int], list[Lease]]:
        """Every lease, by (contract, event id, life of the holder)."""
        rows = {row.id: row for row in self.store.deliveries}
        found: defaultdict[tuple[str, str, int], list[Lease]] = defaultdict(list)
        for lease in () if self.holders is None else self.holders.leases:
            if (row := rows.get(lease.delivery)) is not None:
                found[row.contract, row.event, lease.life].append(lease)
        return dict(found)

    @cached_property
    def lease_of(self) -> dict[int, Lease]:
        """The lease under which each request was sent, of those that its sender took before it arrived.

        A lease stands for one attempt at most: the last request that arrived while it was in force is its own. What
        is then left came late, and takes the latest lease that is left; or none, if a crash of the server lost it.
        """
        slack_ms = 0 if self.holders is None else self.holders.clock_slack_ms
        groups: defaultdict[tuple[str, str, int], list[Received]] = defaultdict(list)
        for (contract, id), receipts in self.receipts_of.items():
            for item in reversed(receipts):
                groups[contract, id, item.life].append(item)
        found: dict[int, Lease] = {}
        for key, leases in self.leases_of.items():
            unused = sorted(leases, key=lambda one: one.claimed_ms, reverse=True)
            for in_force in (True, False):
                for item in groups.get(key, []):
                    if item.n in found:
                        continue
                    fitting = (one for one in unused if _fits(one, item, slack_ms, in_force))
                    if (lease := next(fitting, None)) is not None:
                        unused.remove(lease)
                        found[item.n] = lease
        return found

    def answer_of(self, received: Received) -> str:
        answered = self.answers.get(received.n)
        return "none" if answered is None else answered.answer


def _fits(lease: Lease, item: Received, slack_ms: int, in_force: bool) -> bool:
    """Whether a request may have been sent under a lease; `in_force`: it was still held when the request arrived."""
    over_ms = lease.ended_ms if in_force else None
    return lease.claimed_ms <= item.at_ms + slack_ms and (over_ms is None or item.at_ms <= over_ms + slack_ms)


class Violation(NamedTuple):
    """A promise that was broken: which, by what, and how it shows."""

    promise: str
    subject: str
    detail: str


def gather(records: Iterable[Record], store: StoreRows, ordered: Iterable[str], contracts: Iterable[str],
           ended_before: Mapping[int, Ended], **more: Any) -> Evidence:  # fmt: skip
    """Sort the lines of all books by kind."""
    lines = list(records)
    return Evidence(
        sent={item.key: item for item in lines if isinstance(item, Sent)},
        accepted=[item for item in lines if isinstance(item, Accepted)],
        refused=[item for item in lines if isinstance(item, Refused)],
        received=[item for item in lines if isinstance(item, Received)],
        answers={item.n: item for item in lines if isinstance(item, Answered)},
        started=[item for item in lines if isinstance(item, Started)],
        killed=[item for item in lines if isinstance(item, Killed)],
        undone=frozenset(item.key for item in lines if isinstance(item, Undone)),
        struck=[item for item in lines if isinstance(item, Struck)],
        store=store,
        ordered=frozenset(ordered),
        contracts=frozenset(contracts),
        ended_before=ended_before,
        **more,
    )
