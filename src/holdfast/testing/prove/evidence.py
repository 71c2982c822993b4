"""Everything the checker looks at, as plain values: the outside books, and the rows of a store at rest.

Nothing here knows a database or a process, so a simulation fills it as well as a real campaign does.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from holdfast.domain.receipt import Head, Link
from holdfast.testing.prove.records import Accepted, Answered, Killed, Received, Record, Refused, Sent, Started


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
    """The books sorted by kind, and the store. `ended_before`: ends that were seen on the way."""

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
    lease_lost: frozenset[tuple[str, str]] = frozenset()

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
    def _rebirths(self) -> list[int]:
        dead = {item.life for item in self.killed}
        return sorted(item.at_ns for item in self.started if item.life - 1 in dead)

    def killed_between(self, first_ns: int, second_ns: int) -> bool:
        """Whether the daemon of the first moment was killed and another one started before the second."""
        return bisect_right(self._rebirths, first_ns) != bisect_right(self._rebirths, second_ns)

    def answer_of(self, received: Received) -> str:
        answered = self.answers.get(received.n)
        return "none" if answered is None else answered.answer


class Violation(NamedTuple):
    """A promise that was broken: which, by what, and how it shows."""

    promise: str
    subject: str
    detail: str


def gather(records: Iterable[Record], store: StoreRows, ordered: Iterable[str], contracts: Iterable[str],
           ended_before: Mapping[int, Ended]) -> Evidence:  # fmt: skip
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
        store=store,
        ordered=frozenset(ordered),
        contracts=frozenset(contracts),
        ended_before=ended_before,
    )
