"""Counters of one working process, for `/metrics`. They start at zero with the process."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence, Set
from dataclasses import astuple, dataclass, field
from typing import NamedTuple

from holdfast.domain.address import kind_of, without_tokens
from holdfast.domain.delivery import Claim, Settlement
from holdfast.store.roles.history import ContractHour

QUEUES_MAX = 10_000
QUEUES_KEPT = 5_000
BOUNDS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 3600.0)
FAILED = ("retry", "dead")
_BOUNDS_MS = tuple(bound * 1000 for bound in BOUNDS_S)


class Ended(NamedTuple):
    """How a delivery ended. `reason` is empty where the state has none."""

    kind: str
    state: str
    reason: str


class _Attempt(NamedTuple):
    """What is the same for many attempts of one batch."""

    queue: int
    state: str
    reason: str | None
    outcome: str
    attempt_ms: int
    latency_ms: int


@dataclass(slots=True)
class Histogram:
    """Durations by bucket; the last bucket has no bound."""

    buckets: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS_S) + 1))
    total_ms: int = 0

    def add(self, duration_ms: int, count: int) -> None:
        self.buckets[bisect_left(_BOUNDS_MS, duration_ms)] += count
        self.total_ms += duration_ms * count


@dataclass(slots=True)
class QueueCounts:
    """What became of the attempts of one queue: a contract, or a direct address."""

    name: str
    kind: str
    contract: str | None = None
    attempts: int = 0
    ended: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class ContractCounts:
    """What became of the deliveries of one contract since the counts were last recorded. Times are 0 for never."""

    delivered: int = 0
    dead: int = 0
    dropped: int = 0
    failed: int = 0
    latency_ms: int = 0
    delivered_at_ms: int = 0
    failed_at_ms: int = 0

    def add(self, attempt: _Attempt, count: int, now_ms: int) -> None:
        match attempt.state:
            case "delivered":
                self.delivered += count
                self.latency_ms += max(0, attempt.latency_ms) * count
                self.delivered_at_ms = now_ms
            case "dead":
                self.dead += count
            case "dropped":
                self.dropped += count
        if attempt.outcome in FAILED:
            self.failed += count
            self.failed_at_ms = now_ms

    def in_hour(self, contract: str, hour: int) -> ContractHour:
        return ContractHour(contract, hour, *astuple(self))


class ProcessCounts:
    """Implements `Counters`. A batch costs one pass over its settlements; equal ones are counted together."""

    def __init__(self) -> None:
        self.events_accepted: Counter[str] = Counter()
        self.events_routed = self.events_unmatched = self.deliveries_created = 0
        self.deliveries_ended: Counter[Ended] = Counter()
        self.attempts: Counter[tuple[str, str]] = Counter()
        self.attempt_durations: dict[str, Histogram] = {}
        self.latencies: dict[str, Histogram] = {}
        self.leases_lost = self.leases_reclaimed = 0
        self._queues: dict[int, QueueCounts] = {}
        self._unrecorded: dict[str, ContractCounts] = {}

    def accepted(self, way: str, count: int) -> None:
        self.events_accepted[way] += count

    def routed(self, events: int, deliveries: int, unmatched: int) -> None:
        self.events_routed += events
        self.deliveries_created += deliveries
        self.events_unmatched += unmatched

    def settled(self, settlements: Sequence[Settlement], lost: Set[int], now_ms: int) -> None:
        if lost:
            self.leases_lost += len(lost)
            settlements = [settlement for settlement in settlements if settlement.claim.delivery.id not in lost]
        tally = Counter(
            [
                (
                    claim.queue,
                    transition.state,
                    transition.reason,
                    outcome,
                    now_ms - started_at_ms,
                    now_ms - claim.event.accepted_at_ms,
                )
                for claim, transition, _, _, started_at_ms, outcome in settlements
            ]
        )
        if len(self._queues) > QUEUES_MAX:
            self._forget_idle_queues()
        unknown = {key[0] for key in tally} - self._queues.keys()
        if unknown:
            claims = {claim.queue: claim for claim, *_ in settlements if claim.queue in unknown}
            self._queues |= {queue: _queue_of(claim) for queue, claim in claims.items()}
        for key, count in tally.items():
            self._count(_Attempt(*key), count, now_ms)
        with_effects = [settlement for settlement in settlements if settlement[2]]
        if with_effects:
            self.events_accepted["effect"] += sum(len(settlement.events) for settlement in with_effects)

    def ended(self, state: str, reason: str, count: int) -> None:
        self.deliveries_ended[Ended("", state, reason)] += count

    def leases(self, lost: int = 0, reclaimed: int = 0) -> None:
        self.leases_lost += lost
        self.leases_reclaimed += reclaimed

    def busiest(self, limit: int) -> list[QueueCounts]:
        """The queues with the most attempts."""
        return sorted(self._queues.values(), key=lambda queue: -queue.attempts)[:limit]

    def unrecorded(self, contract: str) -> ContractCounts:
        """What this process did for a contract since its counts were last taken."""
        return self._unrecorded.get(contract) or ContractCounts()

    def take_unrecorded(self) -> dict[str, ContractCounts]:
        """What this process did for each contract, to be recorded; it is counted from zero again."""
        taken, self._unrecorded = self._unrecorded, {}
        return taken

    def _count(self, attempt: _Attempt, count: int, now_ms: int) -> None:
        queue = self._queues[attempt.queue]
        if queue.contract is not None:
            self._unrecorded.setdefault(queue.contract, ContractCounts()).add(attempt, count, now_ms)
        queue.attempts += count
        self.attempts[queue.kind, attempt.outcome] += count
        self.attempt_durations.setdefault(queue.kind, Histogram()).add(max(0, attempt.attempt_ms), count)
        if attempt.state == "pending":
            return
        queue.ended[attempt.state] += count
        self.deliveries_ended[Ended(queue.kind, attempt.state, attempt.reason or "")] += count
        if attempt.state == "delivered":
            self.latencies.setdefault(queue.kind, Histogram()).add(max(0, attempt.latency_ms), count)

    def _forget_idle_queues(self) -> None:
        """Keep the busiest queues. A direct address has a queue of its own, so there may be very many."""
        kept = sorted(self._queues.items(), key=lambda item: -item[1].attempts)[:QUEUES_KEPT]
        self._queues = dict(kept)


def _queue_of(claim: Claim) -> QueueCounts:
    address = claim.delivery.address
    contract = claim.delivery.contract_id
    return QueueCounts(contract or without_tokens(address), kind_of(address).name, contract)
